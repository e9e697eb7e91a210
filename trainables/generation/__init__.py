"""Generation of utterances. `ENTRIES` lists the methods, classes in `methods`, by the
names that configs use; `decoding` draws from the models of all of them.
"""

ENTRIES = {
    "one_and_a_half_stage": "methods:OneAndAHalfStage",
    "one_stage": "methods:OneStage",
    "two_stage": "methods:TwoStage",
}
DEFAULT = "one_stage"
