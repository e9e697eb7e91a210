"""The records of other tools' objects, with the usual names of fields."""

from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

from trainables.data.formats.marks import marked
from trainables.errors import InvalidData

_compile = jmespath.compile
_DONE = "(annotations || completions || `[]`)[?!was_cancelled]"
_NUM_DONE = _compile(f"length({_DONE})")
_PAIR_WITH_LABELS = _compile("merge({text: [0]}, [1])")  # of spaCy
_TASK = _compile(  # of Label Studio
    f"merge(data, {{intent: {_DONE}[].result[].value.choices[],"
    f" slots: {_DONE}[].result[].value | [?labels] || `null`}})"
)
# The keys of a text in pieces: Snips, Dialogflow ES, Dialogflow CX.
_IN_PIECES = ("data", "parts")
_OF_PIECES = {"text", "entity", "slot_name", "slot", "alias", "meta", "userDefined"}
_OF_PIECES |= {"auto", "parameterId"}
_NAME_OF_PIECE = _compile("slot_name || entity || alias || parameterId")
# An intent with its texts: Alexa, Lex 1 and 2, Watson.
_TEMPLATES = ("samples", "sampleUtterances")
_EXAMPLES = (*_TEMPLATES, "examples")


def records_of(value: Any) -> list[dict[str, Any]] | None:
    """The named fields of the records in one object of a JSON file, mostly one; None of
    what is no record. Raises: InvalidData without the place.
    """
    match value:
        case [str(), dict()]:
            return [dict(_PAIR_WITH_LABELS.search(value))]
        case [str() as text, str() as intent]:
            return [{"text": text, "intent": intent}]
        case {"data": dict()}:
            return [_task(value)]
        case {"row": dict() as row}:  # of Hugging Face's server
            return [row]
        case {"text": str()}:
            return [value]
        case dict():
            for key in _IN_PIECES:
                if _are_pieces(value.get(key)):
                    others = {k: value[k] for k in value if k != key}
                    return [{**others, **_joined(value[key])}]
            for key in _EXAMPLES:
                found = value.get(key, "")
                if isinstance(found, list) or (found is None and key in _TEMPLATES):
                    name = value.get("intent") or value.get("name")
                    return [_example(x, name, key in _TEMPLATES) for x in found or ()]
            return [value]
    return None


def _task(value: dict[str, Any]) -> dict[str, Any]:
    try:
        if _NUM_DONE.search(value) > 1:
            raise InvalidData("expected one annotation of the task")
        return dict(_TASK.search(value))
    except JMESPathError:
        raise InvalidData("expected annotations of the task") from None


def _are_pieces(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(x, dict) and x.keys() <= _OF_PIECES for x in value)
    )


def _joined(pieces: list[Any]) -> dict[str, Any]:
    """The text and the slots of a text in pieces."""
    text = ""
    spans = []
    for piece in pieces:
        if not isinstance(piece.get("text"), str):
            raise InvalidData("expected a text of each piece of data")
        start = len(text)
        text += piece["text"]
        if name := _NAME_OF_PIECE.search(piece):
            spans.append([name, start, len(text), piece["text"]])
    return {"text": text, "slots": spans}


def _example(example: Any, intent: Any, is_template: bool) -> dict[str, Any]:
    """A text of an intent, or an object with one; of a template each `{slot}` is a word
    of its slot.
    """
    fields = example if isinstance(example, dict) else {"text": example}
    fields = {"intent": intent, **fields}
    key = next((k for k in ("text", "utterance") if isinstance(fields.get(k), str)), "")
    if is_template and key:
        fields |= {key: (found := marked(fields[key], "braces"))["text"]}
        fields["slots"] = found["slots"]
    return fields
