"""SMCalFlow 2.0."""

from typing import Literal

from trainables.data.pairs import PairFiles


class SmCalFlow(PairFiles):
    """SMCalFlow 2.0: requests to a calendar and their Lispress (Semantic Machines et
    al., TACL 2020).

    The official `train`/`valid.dataflow_dialogues.jsonl.zip`, or files of pairs: a
    folder with either, or one file. The official validation file has 14,751 user turns;
    the pairs of it are the 13,496 that count ("skip": false). The official test part
    was never published.
    """

    is_public = True
    source = (
        "https://github.com/microsoft/task_oriented_dialogue_as_dataflow_synthesis, its"
        " folder datasets/SMCalFlow-2.0"
    )
    place = "smcalflow2"

    name: Literal["smcalflow"] = "smcalflow"
