"""Files of utterances in the forms that the field uses: the folder is the registry.

An entry reads a file or folder record by record (`Record`, or what is wrong with it) and writes
utterances in its form. `Source` puts an entry, its options and what a first pass found together.
"""

from trainables.file_formats._record import Options, Record, SpanUnit
from trainables.file_formats._source import Source, open_source
from trainables.file_formats._survey import Survey

__all__ = ["Options", "Record", "Source", "SpanUnit", "Survey", "open_source"]
