"""One colour for an engine and one mark for a decay, in every picture of the project.

Colours are of the palette that Okabe & Ito (2008) made for all kinds of colour vision; marks and
words say the same again, so that no picture needs its colours to be read.
"""

from __future__ import annotations

from typing import Literal

Mark = Literal["circle", "triangle", "square", "diamond", "cross"]

# engine: (on light paper, on a dark screen); the dark ones are lighter tones of the same hue.
ENGINES: dict[str, tuple[str, str]] = {
    "sgd": ("#595959", "#b8b8b8"),
    "edp_sgd": ("#0072B2", "#56B4E9"),
    "dp_sgd": ("#B84F00", "#F0995A"),
}
_OTHER = ("#7A4A86", "#CC79A7")
DECAYS: dict[str, Mark] = {
    "none": "circle",
    "linear": "triangle",
    "exponential": "square",
    "constant": "circle",
}
NAMES = {"sgd": "SGD", "edp_sgd": "eDP-SGD", "dp_sgd": "DP-SGD"}
MATPLOTLIB_MARKS: dict[Mark, str] = {
    "circle": "o",
    "triangle": "^",
    "square": "s",
    "diamond": "D",
    "cross": "X",
}


def colour(engine: str, *, dark: bool = False) -> str:
    """The colour of an engine as #rrggbb.

    >>> colour("edp_sgd"), colour("sgd", dark=True)
    ('#0072B2', '#b8b8b8')
    """
    return ENGINES.get(engine, _OTHER)[dark]


def mark(engine: str, decay: str) -> Mark:
    """The mark of a trial: by decay for eDP-SGD, one of its own for each other engine.

    >>> mark("edp_sgd", "linear"), mark("dp_sgd", "none"), mark("sgd", "none")
    ('triangle', 'diamond', 'cross')
    """
    if engine == "edp_sgd":
        return DECAYS.get(decay, "circle")
    return "diamond" if engine == "dp_sgd" else "cross"


def name(engine: str) -> str:
    """How an engine is written for people.

    >>> name("dp_sgd"), name("mine")
    ('DP-SGD', 'mine')
    """
    return NAMES.get(engine, engine)
