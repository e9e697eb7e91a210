"""Checks of a synthesis trial at planning time, so that a setup that cannot run costs
no epsilon.

Free of torch for a model from scratch; the weights of a pretrained one are not read.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trainables import catalogue
from trainables.config.trial import SynthesisConfig, TrialConfig, data_config
from trainables.data.corpus import data_path
from trainables.data.pair_split import PairSplit, split_pairs
from trainables.data.pairs import PairCorpus
from trainables.data.training_overlap import hashes_of, key_of, shares_records
from trainables.dp.seeding import generator
from trainables.errors import InvalidData, InvalidInput
from trainables.models.configs import text_model

CORPORA = ("nlu_eval", "snips", "atis")  # public utterances, where available
_MOST_TEXTS = 12_000  # of those corpora together


def require_ready(config: TrialConfig, corpus: PairCorpus) -> None:
    """Raises: InvalidInput for the first problem of the trial: domains or programs that
    the data lacks, too little human text, sizes that do not fit, a model or tokenizer
    that is unavailable.
    """
    require_data(
        config.synthesis, corpus, split_pairs(corpus, config.data, config.synthesis)
    )
    model = text_model(config.model)
    if model.encoder != "scratch":
        from trainables.models.text.hub_lm import require_source

        require_source(model, config.synthesis)
        return
    width, rank = model.hidden_size, config.synthesis.lora_rank
    if width % model.num_heads:
        raise InvalidInput(
            "expected model.hidden_size to be a multiple of"
            f" model.num_heads={model.num_heads}, got {width}"
        )
    most = min(width, model.intermediate_size)
    if rank is not None and rank > most:
        raise InvalidInput(f"expected 1 <= synthesis.lora_rank <= {most}, got {rank}")


def require_data(
    synthesis: SynthesisConfig, corpus: PairCorpus, split: PairSplit
) -> None:
    """Raises: InvalidInput where records lack fields that the method reads, or there
    are too few to compare with; of private records without their number.
    """
    method: Any = catalogue.entry("generation", synthesis.method)
    by_functions = method.reads_prompts and synthesis.prompt == "function_types"
    if method.reads_prompts and not by_functions and not any(corpus.domains):
        raise InvalidInput(
            f"expected data with domains for synthesis.prompt=domain, got {corpus.name}"
            " without"
        )
    if method.reads_programs or by_functions:
        _require_programs(synthesis, corpus, split)
    human = len(split.test) + len(split.reference)
    if synthesis.num_generated > human:
        # Plans and reports keep the message.
        known = f" ({human})" if corpus.public else ""
        raise InvalidInput(
            f"expected synthesis.num_generated to be at most the number{known} of human"
            f" texts of {corpus.name} that they are compared with, got"
            f" {synthesis.num_generated} (`sweep synthesize` draws any number)"
        )


def _require_programs(
    synthesis: SynthesisConfig, corpus: PairCorpus, split: PairSplit
) -> None:
    def known(ids: Iterable[int]) -> bool:
        return all(corpus.programs[i] for i in ids)

    if not known(split.public):
        raise InvalidInput(
            f"expected programs of the public records of {corpus.name} for"
            f" synthesis.method={synthesis.method}, got records without one"
        )
    if synthesis.parses == "gold" and not (
        known(split.private) and known(split.validation)
    ):
        raise InvalidInput(
            "expected synthesis.parses=parser for records without programs, got gold"
        )


def public_utterances(*, data_dir: Path) -> tuple[list[str], tuple[str, ...]]:
    """A fixed sample of utterances of the available public corpora, and the names of
    these.
    """
    found: list[str] = []
    names = []
    for name in CORPORA:
        config = data_config(name=name)
        place = data_path(config, data_dir=data_dir)
        try:
            texts = [" ".join(u.tokens) for u in config.read(place)]
        except InvalidData:
            continue  # not available; the trial's notes name those that were
        found += sorted(set(texts))
        names.append(name)
    order = generator(0, "public utterances").permutation(len(found))[:_MOST_TEXTS]
    return [found[place] for place in order], tuple(names)


def learns_from_public_text(config: TrialConfig) -> bool:
    """Whether the models of a synthesis trial, or their pieces, are made from these
    utterances.
    """
    return text_model(config.model).encoder == "scratch"


def require_unlearnt(corpus: PairCorpus, utterances: Iterable[str]) -> None:
    """Refuse private records that are among the public `utterances`, whatever their
    name.

    Raises: InvalidInput without counts, which plans and reports keep.
    """
    if corpus.public:
        return
    own = {key_of(utterance) for utterance in corpus.utterances}
    if shares_records(own, hashes_of(map(key_of, utterances))):
        raise InvalidInput(
            f"expected records of {corpus.name} that model.encoder=scratch has not"
            " learnt from, got more among the public utterances of"
            f" {', '.join(CORPORA)} than chance explains"
        )
