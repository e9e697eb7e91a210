"""Readers of text, YAML and JSON documents as plain data, within bounds.

Plain data is None, truth values, finite numbers, text, lists, and mappings with text keys. Reading
any document costs time and memory in proportion to its size: its length, its depth and the digits
of its numbers are bounded. Aliases and repeated keys are refused, and so is text that cannot be
stored in a file (NUL, half of a surrogate pair).
"""

from trainables.documents.bounds import DocumentProblem as DocumentProblem
from trainables.documents.bounds import require_storable as require_storable
from trainables.documents.bounds import require_text as require_text
from trainables.documents.files import file_text as file_text
from trainables.documents.files import read_json as read_json
from trainables.documents.files import read_written_json as read_written_json
from trainables.documents.files import read_yaml as read_yaml
from trainables.documents.json_text import parse_json as parse_json
from trainables.documents.json_text import parse_written_json as parse_written_json
from trainables.documents.lines import file_lines as file_lines
from trainables.documents.lines import line_groups as line_groups
from trainables.documents.lines import object_lines as object_lines
from trainables.documents.lines import require_utf_8 as require_utf_8
from trainables.documents.lines import text_lines as text_lines
from trainables.documents.lines import without_problems as without_problems
from trainables.documents.quoting import did_you_mean as did_you_mean
from trainables.documents.quoting import kind_of as kind_of
from trainables.documents.quoting import nearest_name as nearest_name
from trainables.documents.quoting import one_line as one_line
from trainables.documents.quoting import quote as quote
from trainables.documents.quoting import system_words as system_words
from trainables.documents.quoting import words_of as words_of
from trainables.documents.yaml_text import format_yaml as format_yaml
from trainables.documents.yaml_text import parse_yaml as parse_yaml
