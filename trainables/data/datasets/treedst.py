"""TreeDST."""

import re
from typing import Literal

from trainables.data.pairs import PairFiles

_DOMAINS = (
    *("calendarEvent", "flight", "hotel", "message", "navigation", "phoneCall"),
    *("reminder", "restaurant", "taxi", "train", "weatherReport"),
)
_NAMES = {name[0].upper() + name[1:]: name for name in _DOMAINS}
_TYPE = re.compile(rf"\b({'|'.join(_NAMES)})\b")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_ACT = re.compile(r"Root system \w+ (\w+)")


class TreeDst(PairFiles):
    """TreeDST: bookings, messages, ... and their Lispress (Cheng et al. 2020; Platanios
    et al. 2021).

    The official `train_dst`/`dev_dst`/`test_dst.dataflow_dialogues.jsonl.zip`, or files
    of pairs.
    """

    is_public = True
    source = (
        "https://github.com/microsoft/task_oriented_dialogue_as_dataflow_synthesis, its"
        " files train_dst, dev_dst and test_dst.dataflow_dialogues.jsonl.zip (the hard"
        " turns of dev and test alone, to be written as pairs:"
        " https://github.com/esteng/calibration_miso, its folder"
        " data_subsets_fixed_0.6/treedst)"
    )
    place = "treedst"
    domains = _DOMAINS

    name: Literal["treedst"] = "treedst"

    @staticmethod
    def domain_of(program: str, agent: str) -> str | None:
        """The domain whose type a program names first, else that of the agent's last
        act.

        The data have no domain field, so this is an interpretation. None for a turn
        that only revises an earlier one ("at five instead") where the agent's act is
        unknown.

        >>> TreeDst.domain_of('(plan (^(Hotel) Book :object (Hotel.name_? (?= "Flight"))))', "")
        'hotel'
        >>> TreeDst.domain_of('(plan (revise))', "Root system prompt taxi book")
        'taxi'
        """
        found = _TYPE.search(_STRING.sub('""', program))
        if found:
            return _NAMES[found[1]]
        act = _ACT.match(agent)
        return act[1] if act and act[1] in _DOMAINS else None
