"""How an engine is shown: its name for people, its colour and its mark in every picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Mark = Literal["circle", "triangle", "square", "diamond", "cross"]


@dataclass(frozen=True, kw_only=True)
class Look:
    """`label` is the name for people. `light` and `dark` are #rrggbb on light paper and on a dark
    screen. `mark` is that of its trials; None: the mark of their noise decay.
    """

    label: str
    light: str
    dark: str
    mark: Mark | None = "cross"
