"""Files of utterances as other tools write them, read as records and judged one by one.

`reading` takes rows out of files, `rasa` those of Rasa's, `shapes` the records of other
tools' objects; `fields` turns a row into a record, `label_scheme` a record into an
utterance or its problem; `source` combines them with a first pass.
"""

from trainables.data.formats.fields import Options, Record, SpanUnit
from trainables.data.formats.source import Source, Survey, open_source

__all__ = ["Options", "Record", "Source", "SpanUnit", "Survey", "open_source"]
