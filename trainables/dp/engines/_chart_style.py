"""The appearance of an engine in charts: label, colours and mark."""

from dataclasses import dataclass
from typing import Literal

Mark = Literal["circle", "triangle", "square", "diamond", "cross"]


@dataclass(frozen=True, kw_only=True)
class ChartStyle:
    """`label` is the displayed name. `light` and `dark` are #rrggbb on a light and on a
    dark background. `mark` is that of its trials; None: the mark of their noise decay.
    """

    label: str
    light: str
    dark: str
    mark: Mark | None = "cross"
