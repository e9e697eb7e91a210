"""All that the figures of a mechanism depend on, as plain data: the key of the cache of
figures.
"""

from dataclasses import asdict
from typing import Any

from trainables.dp.accounting.accountants import paper_zcdp
from trainables.dp.accounting.releases import release
from trainables.dp.accounting.summary import plain
from trainables.dp.mechanism import Mechanism

COMPOSED = (
    "model.encoder is an export that was trained on records of this data set: every"
    " epsilon is that of both trainings together, and target_epsilon sets the noise of"
    " this training alone"
)

# of the accounting code: to be raised with every change of a figure (test_values.py)
VERSION = 8


def values_of(mechanism: Mechanism) -> dict[str, Any]:
    """The values that accountants read of a mechanism, and those that a summary shows.

    Schedules are represented by the noise of each epoch, not by name.
    """
    epochs = range(mechanism.epochs)
    paper = None
    if paper_zcdp.applies(mechanism):
        paper = [plain(mechanism.noise_multiplier_at(epoch)) for epoch in epochs]
    started = (
        {"starts": [asdict(start) for start in mechanism.starts]}
        if mechanism.starts
        else {}
    )
    return {
        "version": VERSION,
        **started,
        "release": plain(asdict(release(mechanism))),
        "delta": mechanism.delta,
        "noise_multiplier": mechanism.noise_multiplier,
        "effective": [
            plain(mechanism.effective_noise_multiplier_at(epoch)) for epoch in epochs
        ],
        "paper": paper,
        "warnings": list(warnings(mechanism)),
    }


def warnings(mechanism: Mechanism) -> tuple[str, ...]:
    """Warnings about a mechanism, one sentence each; none about delta where inputs were
    read from private records, n perhaps among them: then no epsilon holds at any delta.
    """
    found = (COMPOSED,) if mechanism.starts else ()
    expected = mechanism.delta * mechanism.num_records
    if mechanism.claims_privacy and not mechanism.undeclared and expected >= 1:
        return (
            *found,
            f"delta * n = {expected:g} is not below 1: delta={mechanism.delta:g} lets a"
            f" mechanism publish a whole record of the {mechanism.num_records} and"
            " still meet the claim",
        )
    return found
