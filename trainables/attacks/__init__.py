"""Membership inference attacks and audits, one a file; a higher score means "member".

An attack has `NEEDS` and `scores(target, knowledge, *, seed)`, from arrays to an array,
without access to model or text; one that needs references, the other trials of a sweep,
has `all_scores(trials)`, an array for each. `Signals` is the input that a trial writes
for attacks; `_panel` runs attacks, and is imported where they run: a config that names
attacks imports this.
"""

from trainables.attacks._headline import Strongest as Strongest
from trainables.attacks._headline import attacks_on_models as attacks_on_models
from trainables.attacks._headline import auc_of as auc_of
from trainables.attacks._headline import audited as audited
from trainables.attacks._headline import figures
from trainables.attacks._headline import oriented_attacks as oriented_attacks
from trainables.attacks._headline import strongest as strongest
from trainables.attacks._knowledge import Knowledge as Knowledge
from trainables.attacks._knowledge import valid_attacks as valid_attacks
from trainables.attacks._signals import FEATURES as FEATURES
from trainables.attacks._signals import Signals as Signals
from trainables.attacks._signals import bag_of_words as bag_of_words
from trainables.attacks._signals import features_of as features_of
from trainables.attacks._signals import gather as gather
from trainables.attacks._signals import read_signals as read_signals
from trainables.attacks._signals import write_signals as write_signals

ENTRIES = {
    "bavaria": "relative",  # to the other trials of a sweep
    "blind": "control",  # it sees no model, so its figure is no leakage
    "calibrated": "relative",
    "lira": "relative",
    "loss_threshold": "attack",
    "one_run": "attack",
    "quantile": "attack",
    "rmia": "relative",
    "shadow": "attack",
}
FIGURES = figures()
