"""The descriptions of corpora by `sweep data`: sizes and label counts, never a text."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.settings import Settings
from sweep.store.data_sets import is_available
from trainables import catalogue
from trainables.config.trial import DataConfig, data_config
from trainables.data.corpus import Corpus, data_path, open_corpus
from trainables.data.pairs import PairCorpus, open_pairs
from trainables.data.records import Utterance
from trainables.data.sizes import (
    declared_pool_size,
    declared_training_size,
    num_training_records,
)
from trainables.data.split import make_split
from trainables.data.storage import PARTS
from trainables.errors import InvalidInput
from trainables.parse.function_types import function_types
from trainables.parse.graph import graph

_RULES = {
    "paper": "45:5:50 over the pooled files, as in Dupuy et al. 2021",
    "official": "the corpus' own parts; without a validation part 5 % of the training"
    " part",
    "hash": "70:10:20 on average, each record by the hash of its text or group",
    "bernoulli": "5 % validate, 5 % test, a coin for each other record",
    "paired": "5 % validate, 5 % test, a coin for each pair of other records",
}


def overview(settings: Settings) -> list[dict[str, Any]]:
    """A row for every registered corpus, by field names for JSON: kind, path, whether
    its files are there and whether it is public, where it is published, and the
    declared numbers of records (None: not declared).
    """
    rows = []
    for name in catalogue.names("datasets"):
        config = data_config(name=name)
        rows.append(
            {
                "name": name,
                "kind": config.kind,
                "public": config.is_public,
                "at_hand": is_available(config, settings),
                "source": config.source,
                "path": str(data_path(config, data_dir=settings.data_dir)),
                "num_records": declared_pool_size(config),
                "num_training": declared_training_size(config)
                if config.kind == "frames"
                else None,
                "description": " ".join(
                    (config.__doc__ or "").split("\n\n")[0].split()
                ),
            }
        )
    return rows


def utterances_of(config: DataConfig, settings: Settings) -> Iterable[Utterance]:
    """The records of a corpus of utterances with intents and slots.

    Raises: InvalidInput for one of pairs; InvalidData with file and line.
    """
    if catalogue.kind_of("datasets", config.name) != "frames":
        raise InvalidInput(
            f"expected a corpus with intents and slots, got {config.name}, which has"
            " programs"
        )
    path = data_path(config, data_dir=settings.data_dir)
    found: Iterable[Utterance] = config.read(path)
    return found


def describe(config: DataConfig, settings: Settings) -> dict[str, object]:
    """Sizes, lengths and label counts of one corpus, which is read whole.

    Raises: InvalidData naming file and line of damaged records.
    """
    if config.kind == "pairs":
        return _describe_pairs(open_pairs(config, data_dir=settings.data_dir))
    corpus = open_corpus(
        config, data_dir=settings.data_dir, cache_dir=settings.cache_dir
    )
    lengths = np.asarray(corpus.lengths)
    return {
        "name": corpus.name,
        "fingerprint": corpus.fingerprint,
        "num_records": corpus.num_records,
        "num_duplicates": corpus.num_duplicates,
        "num_training": num_training_records(config, corpus),
        **_parts(config, corpus),
        "num_tokens": int(lengths.sum()),
        "num_types": len(corpus.types),
        "mean_length": float(lengths.mean()),
        "max_length": int(lengths.max()),
        "num_intents": len(corpus.schema.intents),
        "num_slots": len(corpus.schema.slots),
        "intents": _by_name(corpus.schema.intents, corpus.intents),
        # The tags of a slot, B and I, follow that of no slot, which is first.
        "slots": _by_name(corpus.schema.slots, (np.asarray(corpus.tags) - 1) / 2),
        "num_outside_schema": int(np.asarray(corpus.outside).sum()),
        "grouped": corpus.groups is not None,
        "schema_source": corpus.schema.source,
        "undeclared": list(corpus.undeclared),
    }


def _parts(config: DataConfig, corpus: Corpus) -> dict[str, int | str | None]:
    """The numbers of validation and test records, and the rule of the split."""
    try:
        split = make_split(config, corpus=corpus, mask_seed=0)
    except InvalidInput as problem:
        return {"num_validation": None, "num_test": None, "parts_because": str(problem)}
    return {
        "num_validation": len(split.validation),
        "num_test": len(split.test),
        "parts_because": f"data.split={config.split}: {_RULES[config.split]}",
    }


def _by_name(names: Sequence[str], numbers: NDArray[Any]) -> dict[str, int]:
    """How often the number of each name is there, the commonest first."""
    named = {name: int((numbers == number).sum()) for number, name in enumerate(names)}
    return dict(Counter(named).most_common())


def _describe_pairs(pairs: PairCorpus) -> dict[str, object]:
    programs = [graph(program) for program in pairs.programs if program]
    lengths = [len(utterance.split()) for utterance in pairs.utterances]
    return {
        "name": pairs.name,
        "fingerprint": pairs.fingerprint,
        "num_records": len(pairs),
        # records are turns; equal ones are kept, as the papers count them
        "num_duplicates": 0,
        "num_with_program": len(programs),
        **{f"num_{part}": pairs.parts.count(part) for part in PARTS},
        "num_dialogues": len({pair.dialogue for pair in pairs.pairs}),
        "num_distinct_utterances": len(set(pairs.utterances)),
        "num_distinct_programs": len(set(pairs.programs)),
        "num_function_types": len(set().union(*map(function_types, programs))),
        "num_domains": len(set(pairs.domains) - {None}),
        "mean_length": float(np.mean(lengths)),
        "max_length": max(lengths),
    }
