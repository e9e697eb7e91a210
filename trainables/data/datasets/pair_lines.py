"""A user's own pairs as JSON lines."""

from typing import Literal

from trainables.data.pairs import PairFiles


class PairLines(PairFiles):
    """A user's own pairs as JSON lines, one object a record.

        {"utterance": "cancel my lunch", "lispress": "(Yield (...))", "dialogue_id": "17"}

    `lispress` may be left out where only the utterances are known; `dialogue_id`,
    `domain` and `part` (train, validation, test) are optional.
    """

    place = "pairs.jsonl"

    name: Literal["pair_lines"] = "pair_lines"
