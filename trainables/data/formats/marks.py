"""Slots that are marked in the text itself."""

import json
import re
from collections import Counter
from typing import Any

from trainables.errors import InvalidData

_NAME = re.compile(r"""\(\s*("?)([^():"\[\]{}]+)\1\s*(?::([^()]*))?\)""")
_EDGE = re.compile(r"</?\w[^<>]*>")
# How texts with marks look, by the option that reads them: a pattern of slot and value.
FORMS = {
    "[value](slot)": ("brackets", re.compile(r"\[[^\[\]]+\]\s*[({]")),
    "<slot>value</slot>": (
        "elements",
        re.compile(r"<(?P<slot>\w[\w.-]*)>(?P<value>[^<>]+)</(?P=slot)>"),
    ),
    "[slot : value]": (
        "colons",
        re.compile(r"\[\s*(?P<slot>[\w.-]+)\s*:\s+(?P<value>[^\[\]]+?)\s*\]"),
    ),
    "{slot}": (
        "braces",
        re.compile(r"\{\s*(?:(?P<value>[^{}|]+)\|)?\s*(?P<slot>[\w.-]+)\s*\}"),
    ),
}


def marked(
    text: str, form: str, where: str = "", notes: Counter[str] | None = None
) -> dict[str, Any]:
    """The text and the slots of a text with marks; of `{slot}` the name is the value.
    Raises: InvalidData for a mark that is not complete.
    """
    pattern = next(pattern for option, pattern in FORMS.values() if option == form)
    if form != "brackets":
        text = pattern.sub(lambda m: f"[{m['value'] or m['slot']}]({m['slot']})", text)
    if form == "elements" and _EDGE.search(text):
        raise InvalidData(
            f"expected each element in {where} to mark a slot, <slot>value</slot>, not"
            " in one another"
        )
    return brackets(text, where, Counter() if notes is None else notes)


def brackets(marked: str, where: str, notes: Counter[str]) -> dict[str, Any]:
    """The text and the slots of `[value](slot)`, `[value](slot:synonym)` or
    `[value]{"entity": "slot"}`. Raises: InvalidData for a bracket that is part of none.
    """
    text, slots, rest = "", [], marked
    while "[" in rest or "]" in rest:
        before, _, behind = rest.partition("[")
        value, closed, rest = behind.partition("]")
        name, end = _name(rest, notes) if closed else (None, 0)
        if "]" in before or "[" in value or not value.strip() or name is None:
            raise InvalidData(
                f"expected each bracket in {where} to mark a slot, [value](slot) or"
                ' [value]{"entity": "slot"}, without spaces between and not in one'
                " another"
            )
        text += before
        slots.append([name, len(text), len(text) + len(value), value])
        text += value
        rest = rest[end:]
    return {"text": text + rest, "slots": slots}


def _name(rest: str, notes: Counter[str]) -> tuple[str | None, int]:
    """The slot's name behind a marked value, and where the mark ends."""
    if match := _NAME.match(rest):
        notes["synonyms"] += match[3] is not None
        return match[2].strip() or None, match.end()
    try:
        found, end = json.JSONDecoder().raw_decode(rest)
    except (ValueError, RecursionError):
        return None, 0
    entity = found.get("entity") if isinstance(found, dict) else None
    if not isinstance(entity, str):
        return None, 0
    notes["groups of entities"] += "group" in found
    notes["synonyms"] += "value" in found
    role = found.get("role")
    return f"{entity}.{role}" if isinstance(role, str) else entity, end
