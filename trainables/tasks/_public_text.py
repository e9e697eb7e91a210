"""Public utterances that a language model from scratch learns from. Free of torch."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from trainables import catalogue
from trainables.config import TrialConfig, data_config
from trainables.data.corpus import data_path
from trainables.data.pairs import PairCorpus
from trainables.encoders.learnt import hashes_of, key_of, shares_records
from trainables.errors import InvalidData, InvalidInput
from trainables.models.causal_lm import config_of
from trainables.seeding import generator

CORPORA = ("nlu_eval", "snips", "atis")  # where available
_MOST_TEXTS = 12_000  # of those corpora together


def public_utterances(*, data_dir: Path) -> tuple[list[str], tuple[str, ...]]:
    """A fixed sample of utterances of the available public corpora, and the names of these."""
    found: list[str] = []
    names = []
    for name in CORPORA:
        config = data_config(name=name)
        entry = catalogue.entry("datasets", name)
        place = data_path(config, data_dir=data_dir)
        try:
            texts = [" ".join(u.tokens) for u in entry.read(place, config=config)]
        except InvalidData:
            continue  # not available; the trial's notes name those that were
        found += sorted(set(texts))
        names.append(name)
    order = generator(0, "public utterances").permutation(len(found))[:_MOST_TEXTS]
    return [found[place] for place in order], tuple(names)


def learns_from_public_text(config: TrialConfig) -> bool:
    """Whether the models of a synthesis trial, or their pieces, are made from these utterances."""
    return config_of(config.model).encoder == "scratch"


def require_unlearnt(corpus: PairCorpus, utterances: Iterable[str]) -> None:
    """Refuse private records that are among the public `utterances`, whatever their name.

    Raises: InvalidInput without counts, which plans and reports keep.
    """
    if corpus.public:
        return
    own = {key_of(utterance) for utterance in corpus.utterances}
    if shares_records(own, hashes_of(map(key_of, utterances))):
        raise InvalidInput(
            f"expected records of {corpus.name} that model.encoder=scratch has not learnt from, got"
            f" more among the public utterances of {', '.join(CORPORA)} than chance explains"
        )
