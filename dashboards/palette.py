"""One colour for an engine and one mark for a decay, which their files state (`LOOK`,
`MARK`), in every chart of the project; one of each for a band of epsilon.

Colours are from the palette of Okabe & Ito (2008) for all kinds of colour vision; marks
and words repeat the information.
"""

import math

from trainables import catalogue
from trainables.dp.engines.configs import ChartStyle, Mark

_OTHER = ("#7A4A86", "#CC79A7")  # of an engine that is not installed here
# One sequential scale: the darker, the more private (the lighter on a dark screen).
BANDS = {
    "epsilon-1": ChartStyle(
        label="epsilon up to 1", light="#00343d", dark="#d6f5f8", mark="circle"
    ),
    "epsilon-10": ChartStyle(
        label="epsilon up to 10", light="#006a78", dark="#8fd5de", mark="triangle"
    ),
    "epsilon-1000": ChartStyle(
        label="epsilon up to 1000", light="#2b95a3", dark="#4ea7b4", mark="square"
    ),
    "epsilon-huge": ChartStyle(
        label="epsilon above 1000", light="#69aeb8", dark="#3a7a85", mark="diamond"
    ),
    "epsilon-none": ChartStyle(label="no guarantee", light="#767676", dark="#8f8f8f"),
}
# Of lines that are no trial's.
LINES = {
    "accent": ChartStyle(label="", light="#0072B2", dark="#56B4E9"),
    "limit": ChartStyle(label="", light="#a3200d", dark="#ff9c8a"),
}
# Around the origin, of about equal area.
PATHS: dict[Mark, str] = {
    "circle": "M-5 0A5 5 0 1 1 5 0A5 5 0 1 1-5 0Z",
    "triangle": "M0-6.2L5.8 4H-5.8Z",
    "square": "M-4.5-4.5H4.5V4.5H-4.5Z",
    "diamond": "M0-6.5L5.5 0L0 6.5L-5.5 0Z",
    "cross": "M-5-3L-3-5L0-2L3-5L5-3L2 0L5 3L3 5L0 2L-3 5L-5 3L-2 0Z",
}


def colour(engine: str, *, dark: bool = False) -> str:
    """The colour of an engine as #rrggbb.

    >>> colour("nobody's"), colour("nobody's", dark=True)
    ('#7A4A86', '#CC79A7')
    """
    found = look(engine)
    return found.dark if dark else found.light


def mark(engine: str, decay: str) -> Mark:
    """The mark of a trial: that of its engine, or else of its noise decay.

    >>> [mark(catalogue.default("engines"), decay) for decay in ("linear", "unknown")]
    ['triangle', 'circle']
    """
    own = look(engine).mark
    if own is None and decay in catalogue.names("schedules"):
        own = getattr(catalogue.entry("schedules", decay), "MARK", None)
    return own or "circle"


def name(engine: str) -> str:
    """The displayed name of an engine.

    >>> name("nobody's")
    "nobody's"
    """
    return look(engine).label


def words(engine: str, decay: str) -> str:
    """The displayed name of an engine and, where shown separately, its decay."""
    found = look(engine)
    if found.mark is not None:
        return found.label
    return f"{found.label}, {'no decay' if decay == 'none' else f'{decay} decay'}"


def band(epsilon: float | None) -> str:
    """The name of the look of an epsilon.

    >>> [name(band(epsilon)) for epsilon in (8.0, 1e5, None)]
    ['epsilon up to 10', 'epsilon above 1000', 'no guarantee']
    """
    if epsilon is None or math.isinf(epsilon):
        return "epsilon-none"
    limit = next((limit for limit in (1, 10, 1000) if epsilon <= limit), "huge")
    return f"epsilon-{limit}"


def look(engine: str) -> ChartStyle:
    """The look of an engine, or of a band of epsilon; a default for one that is not
    installed.
    """
    if engine in BANDS | LINES:
        return (BANDS | LINES)[engine]
    if engine not in catalogue.names("engines"):
        return ChartStyle(label=engine, light=_OTHER[0], dark=_OTHER[1])
    found: ChartStyle = catalogue.entry("engines", engine).style
    return found


def css() -> str:
    """The style sheet of engines, for light and dark screens and print."""
    return (
        f"{_rules(dark=False)}\n@media screen and (prefers-color-scheme: dark) {{\n"
        f"{_rules(dark=True)}\n}}"
    )


def _rules(*, dark: bool) -> str:
    names = (*catalogue.names("engines"), *BANDS, *LINES)
    return "\n".join(
        f".{css_class(one)} {{ --c: {colour(one, dark=dark)}; }}" for one in names
    )


def css_class(engine: str) -> str:
    """The CSS class of an engine's elements.

    >>> css_class("my_engine")
    'engine-my-engine'
    """
    return f"engine-{engine.replace('_', '-')}"
