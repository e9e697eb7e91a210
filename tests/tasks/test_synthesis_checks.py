"""What a plan says of a synthesis trial that cannot run."""

import pytest

from tests.refusals import refused
from trainables.config.trial import SynthesisConfig, data_config, part
from trainables.data.pair_split import split_pairs
from trainables.data.pairs import Pair, PairCorpus
from trainables.tasks._synthesis_checks import require_data


@pytest.mark.parametrize("public", [True, False])
def test_the_number_of_private_records_is_not_said(public):
    """Plans and reports keep the message."""
    pairs = tuple(Pair(f"call number {place}", "", "") for place in range(250))
    corpus = PairCorpus("pair_lines", pairs, public=public)
    synthesis = SynthesisConfig(num_generated=300)
    split = split_pairs(corpus, data_config(name="pair_lines"), synthesis)
    with refused(r"at most the number .* got 300 ") as problem:
        require_data(synthesis, corpus, split)
    assert ("(40)" in str(problem.value)) == public
    with refused("data with domains for synthesis.prompt=domain"):
        require_data(
            part("synthesis", {"method": "one_and_a_half_stage"}), corpus, split
        )


def test_one_generated_text_cannot_be_measured():
    """Refused before the trial spends anything."""
    with refused(r"num_generated: input should be .* equal to 2, got 1"):
        part("synthesis", {"num_generated": 1})
    assert part("synthesis", {"num_generated": 2}).num_generated == 2
