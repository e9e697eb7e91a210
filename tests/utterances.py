from trainables.data.bio import parse_annotation
from trainables.data.records import Utterance


def said(text, intent="", **others):
    """An utterance of a text in which slots are marked `[slot : value]`."""
    return Utterance(*parse_annotation(text, where="a test"), intent, **others)
