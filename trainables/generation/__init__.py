"""Generation of utterances: each entry is one method, `decoding` serves all.

A method names its stages and the training texts of each (`texts`), and draws utterances
from their models (`draw`).
"""

ENTRIES = ("one_and_a_half_stage", "one_stage", "two_stage")
DEFAULT = "one_stage"
