"""Common file formats of utterances; the folder is the registry.

An entry reads a file or folder record by record (`Record`, or a problem) and writes utterances in
its format. `Source` combines an entry, its options and the survey of a first pass.
"""

from trainables.file_formats._record import Options, Record, SpanUnit
from trainables.file_formats._source import Source, open_source
from trainables.file_formats._survey import Survey

__all__ = ["Options", "Record", "Source", "SpanUnit", "Survey", "open_source"]

ENTRIES = (
    "bio_folder",
    "conll",
    "delimited",
    "hugging_face",
    "json_lines",
    "json_list",
    "massive",
    "rasa_nlu",
)
