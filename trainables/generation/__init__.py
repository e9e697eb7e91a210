"""Generation of utterances. `ENTRIES` lists the methods, classes in `methods`, by the
names that configs use; `decoding` draws from the models of all of them.
"""

from trainables.generation.methods import OneAndAHalfStage, OneStage, TwoStage

ENTRIES = {
    "one_and_a_half_stage": OneAndAHalfStage,
    "one_stage": OneStage,
    "two_stage": TwoStage,
}
DEFAULT = "one_stage"
