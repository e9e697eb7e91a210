"""`sweep compare`: two sweeps or two trials, paired, with intervals."""

from typing import Annotated

import typer

from sweep.commands._options import EpsilonMax, JsonFlag
from sweep.commands._output import console, print_json, say
from trainables.system import collector

_Side = Annotated[
    str,
    typer.Argument(
        metavar="SWEEP[:TRIAL]", help="A sweep (its best trial) or a trial."
    ),
]


@collector.paused()
def compare(
    first: _Side,
    second: _Side,
    epsilon_max: EpsilonMax = None,
    as_json: JsonFlag = False,
) -> None:
    """Compare B with A by all figures, and by SER paired over test utterances."""
    from sweep.results import comparison as comparing
    from sweep.settings import from_environment

    home = from_environment().home
    a, b = (
        comparing.side(home, text, epsilon_max=epsilon_max) for text in (first, second)
    )
    found = comparing.compare(a, b)
    if as_json:
        print_json(
            "compare",
            {
                "first": a.name,
                "second": b.name,
                "figures": found.figures,
                "ser_change_percent": found.paired,
            },
        )
        return
    console().print(comparing.comparison_table(found))
    say(*comparing.sentences(found))
