"""The state of a partly written prefix-notation program: allowed next tokens, and its end.

A writer that checks it before every token, and keeps a budget, can only write complete programs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from trainables.parse.linearise import arity, is_call, is_let

# "expression": anything but a named argument; "argument": that too; "name": a variable's name.
Slot = Literal["expression", "argument", "name"]
SLOTS: tuple[Slot, ...] = ("expression", "argument", "name")


@dataclass(slots=True)
class PrefixState:
    """A program of which some tokens were written.

    >>> state = PrefixState()
    >>> for token in ("let/3", "x0/-", "Now/0"):
    ...     print(state.slot, state.pending)
    ...     state.write(token)
    expression 1
    name 3
    expression 2
    >>> state.slot, state.pending
    ('expression', 1)
    """

    pending: int = 1  # parts that are still missing; 0 where the program is complete
    # Open tokens: what their parts are (None: let's, which alternate), parts needed, parts had.
    _open: list[tuple[Slot | None, int, int]] = field(default_factory=list)

    @property
    def slot(self) -> Slot:
        """The kind of the next token."""
        if not self._open:
            return "expression"
        kind, needed, had = self._open[-1]
        if kind is not None:
            return kind
        return "name" if had % 2 == 0 and had < needed - 1 else "expression"

    def write(self, token: str) -> None:
        """Append one token, which must fit the slot."""
        needed = arity(token)
        self.pending += needed - 1
        if self._open:
            kind, needs, had = self._open[-1]
            self._open[-1] = (kind, needs, had + 1)
        if needed:
            parts: Slot | None = "expression"
            if is_let(token):
                parts = None
            elif is_call(token):
                parts = "argument"
            self._open.append((parts, needed, 0))
        while self._open and self._open[-1][1] == self._open[-1][2]:
            self._open.pop()
