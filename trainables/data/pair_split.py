"""The split into private, public and held-out pairs, shared by planning and training.

The first available part of the official split is trained on, the last one is the human
text that generated text is compared with; a corpus of one part is cut 4:1. A uniform
share of the training part is declared public (Mireshghallah et al. 2022 take a tenth).
With `data.split: bernoulli` a trial trains on about half of the private part, by an
independent, fair membership of each record and trial, so that its release can be
audited with the other half.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainables.config.sections import DataConfig, SynthesisConfig
from trainables.data.pairs import PairCorpus
from trainables.data.storage import PARTS
from trainables.dp.seeding import generator
from trainables.errors import InvalidInput
from trainables.parse.function_types import predicate

Ids = NDArray[np.int64]
_MOST_VALIDATION = 500


@dataclass(frozen=True, eq=False)
class PairSplit:
    """Ids of a corpus, none in two of them.

    `private` are the records that an epsilon covers. `reference` is human text that is
    neither validated nor tested on, for training a measuring parser. `held_out` are the
    records excluded from `private` by random membership; empty without it.
    """

    private: Ids
    public: Ids
    validation: Ids
    test: Ids
    reference: Ids
    held_out: Ids


def split_pairs(
    corpus: PairCorpus,
    data: DataConfig,
    synthesis: SynthesisConfig,
    *,
    mask_seed: int | None = None,
) -> PairSplit:
    """The split of a corpus, by `data.split_seed`; `mask_seed` seeds the trial's
    memberships. Without it all records of the pool of random members are `private`.
    Raises: InvalidInput where there is no private record, or a named function does not
    occur in the training part.
    """
    training, human = _parts(corpus, data)
    order = generator(data.split_seed, "public").permutation(training)
    cut = round(synthesis.public_fraction * len(order))
    public, private = np.sort(order[:cut]), np.sort(order[cut:])
    if synthesis.remove_function is not None:
        uses = _users(corpus, training, synthesis.remove_function, "remove_function")
        public = public[~np.isin(public, uses)]
    if synthesis.only_function is not None:
        uses = _users(corpus, training, synthesis.only_function, "only_function")
        private = private[np.isin(private, uses)]
    if len(private) == 0 or len(public) == 0:
        side = "private" if len(private) == 0 else "public"
        raise InvalidInput(
            f"expected at least one {side} record of {corpus.name}, got none"
            f" (synthesis.public_fraction={synthesis.public_fraction:g})"
        )
    held_out = private[:0]
    if data.split == "bernoulli" and mask_seed is not None:
        mask = generator(mask_seed, "mask").random(len(private)) < 0.5
        private, held_out = private[mask], private[~mask]
        if len(private) == 0:
            raise InvalidInput(
                "expected at least one private record with data.split=bernoulli"
            )
    shuffled = generator(data.split_seed, "human").permutation(human)
    validation = min(_MOST_VALIDATION, max(1, len(shuffled) // 5))
    test = validation + min(synthesis.num_generated, len(shuffled) - validation)
    return PairSplit(
        private=private,
        public=public,
        validation=np.sort(shuffled[:validation]),
        test=np.sort(shuffled[validation:test]),
        reference=np.sort(shuffled[test:]),
        held_out=held_out,
    )


def num_private_records(
    corpus: PairCorpus, data: DataConfig, synthesis: SynthesisConfig
) -> tuple[int, tuple[str, ...]]:
    """n of a mechanism, declared or counted, and the reason why a count is an
    unaccounted release. With random membership it is the expected number, because the
    realised one is private.

    Raises: InvalidInput as `split_pairs` does, where they are counted.
    """
    if data.num_records is not None:
        return data.num_records, ()
    private = len(split_pairs(corpus, data, synthesis).private)
    if data.split == "bernoulli":
        private = max(1, private // 2)
    if corpus.public:
        return private, ()
    return private, (
        "the number of training records was counted on the private records (no"
        " data.num_records)",
    )


def public_part(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a config, as plain data, that decide which records of a corpus are
    taken as public: a record that is private under some of them may be public under
    others.
    """
    data, synthesis = fields.get("data", {}), fields.get("synthesis", {})
    found = {name: data.get(name) for name in ("split_seed", "max_records")}
    return {**found, "public_fraction": synthesis.get("public_fraction")}


def couples(ids: Ids, *, seed: int) -> Ids:
    """A random perfect matching of `ids`: int64[2, len // 2], each column two records.

    With an odd number one record is left out.
    """
    order = generator(seed, "couples").permutation(ids)
    return order[: len(order) // 2 * 2].reshape(2, -1)


def _parts(corpus: PairCorpus, data: DataConfig) -> tuple[Ids, Ids]:
    parts = np.array(corpus.parts)
    there = [part for part in PARTS if part in corpus.parts]
    if len(there) > 1:
        first, last = (np.flatnonzero(parts == part) for part in (there[0], there[-1]))
        return first, last
    order = generator(data.split_seed, "parts").permutation(len(corpus))
    cut = max(1, len(order) // 5)
    return np.sort(order[cut:]), np.sort(order[:cut])


def _users(corpus: PairCorpus, ids: Ids, rule: str, field: str) -> Ids:
    """The records of `ids` whose program uses a function."""
    if not all(corpus.programs[i] for i in ids):
        raise InvalidInput(
            f"expected programs for synthesis.{field}, got records without one"
        )
    uses = predicate(rule)
    found = np.array([i for i in ids if uses(corpus.programs[i])], dtype=np.int64)
    if len(found) == 0:
        raise InvalidInput(
            f"expected synthesis.{field} to name a function that occurs in the training"
            f" part of {corpus.name}, got {rule!r}"
        )
    return found
