"""Trials that a sweep has taken over from another one of its home, which has trained and
paid for them.

Copying a result is post-processing of a release that the ledger has, so that the data
set is not charged again. The sweep that shows it has it among its own releases, so its
entries count in that sweep's budgets and epsilon, each attempt of them.
"""

from sweep.spending.ledger import Entry, Ledger
from sweep.store.sweeps import SweepFolder


def entries_of(folder: SweepFolder, ledger: Ledger) -> list[Entry]:
    """The ledger's entries for all that a sweep shows: its own, and those of the sweeps
    that trained what it has taken over. Of each attempt the furthest.

    Raises: InvalidData for a damaged log or ledger.
    """
    found, state = ledger.of_sweep(folder.ledger_name), folder.state()
    for trial in folder.plan().trials:
        result = state.trial(trial.id).result
        if result and (origin := result.get("taken_from")):
            found += of_trial(ledger, origin, trial.id)
    return found


def of_trial(ledger: Ledger, sweep: str, trial_id: str) -> list[Entry]:
    """The entries of one trial of a sweep, by the sweep's name in the ledger."""
    return [entry for entry in ledger.of_sweep(sweep) if entry.trial == trial_id]
