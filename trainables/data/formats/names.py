"""The names that the tools of the field give to fields of records and of spans."""

import ast
import re
from contextlib import suppress
from typing import Any

from trainables.io.documents import DocumentProblem, parse_json

TAG = re.compile(r"([biBILESUM])-(\S.*)|[oO]", re.DOTALL)
# The first name of a role that a row has is used.
NAMES = {
    role: tuple(names.split())
    for role, names in {
        "text": "text utterance sentence query utt phrase question raw_text äußerung satz"
        " anfrage",
        "tokens": "tokens words word token",
        "annotated": "annot_utt annotation answer_annotation",
        "intent": "intent intents intent_name label labels category class cats choice"
        " absicht kategorie accept",
        "tags": "tags bio bio_tags ner_tags slot_tags iob tag",
        "slots": "slots entities spans ents label labels annotations",
        "part": "part split partition",
        "group": "group",
    }.items()
}
# Of a table with a row a token: the column of the sentence.
SENTENCE = ("sentence #", "sentence_id", "sentence_idx", "sent_id")
# Of one token, unless a list.
SINGLE = ("word", "token", "tag")
# Of the record, or of its spans.
EITHER = ("label", "labels")
NAME = [
    "slot",
    "slot_name",
    "entity",
    "label",
    "labels",
    "name",
    "type",
    "tag",
    "entity_type",
    "entity_group",
    "category",
]
START = ["start", "start_char", "begin", "start_offset", "startPos", "offset", "from"]
LAST = "endPos"  # of LUIS: the last character
END = ["end", "end_char", "stop", "end_offset", "to", LAST]
LENGTH = "length"  # instead of an end
VALUE = ("text", "value", "word")
_LONGEST_LITERAL = 100_000
_PLACED = re.compile(r"(\d{1,9}:\d{1,9}:[^,]+)(,\d{1,9}:\d{1,9}:[^,]+)*\Z", re.ASCII)


def are_spans(value: Any) -> bool:
    """Whether a value of a field is a list of spans, or the text of one."""
    value = listed(value)
    return isinstance(value, list) and all(
        isinstance(each, list | dict) for each in value[:1]
    )


def listed(value: Any) -> Any:
    """The list or object that a text is, as JSON, as Python or as `3:7:name,...` of
    characters; other values as they are.
    """
    if isinstance(value, str):
        if value[:1] in ("[", "{"):
            return _literal(value)
        if _PLACED.match(value):
            some = (each.split(":", 2) for each in value.split(","))
            return [[name, int(start), int(end)] for start, end, name in some]
    return value


def _literal(text: str) -> Any:
    """The value of a JSON text, or of what Python prints of a list; a text that is
    neither as it is.
    """
    with suppress(DocumentProblem):
        return parse_json(text)
    with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
        return ast.literal_eval(text[:_LONGEST_LITERAL])
    return text
