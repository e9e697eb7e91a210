"""The sentences of a privacy card: the guarantee, the adversary, and what is not
covered.
"""

import math
from collections.abc import Sequence

from trainables import formats
from trainables.dp.accounting.rounding import format_delta, format_epsilon
from trainables.dp.accounting.summary import PrivacySummary
from trainables.dp.mechanism import Mechanism
from trainables.figures import curator_only

_UNITS = {
    "record": "record",
    "group": "group of records",
    "couple": "couple of records whose programs were exchanged",
}
_RELATIONS = {
    "add_or_remove_one": "one {unit} more or less in the {where}",
    "replace_one": "one {unit} of the {where} replaced by any other",
}


_FILE_OR_TRAINING = {True: "file", False: "training set"}


def neighbours(unit: str, relation: str, *, covers_all: bool = False) -> str:
    """The difference between two neighbouring data sets."""
    where = _FILE_OR_TRAINING[covers_all]
    return _RELATIONS[relation].format(unit=_UNITS[unit], where=where)


def guarantee(mechanism: Mechanism, summary: PrivacySummary) -> str:
    """The guarantee of the mechanism, or that no finite epsilon holds."""
    covers_all = bool(mechanism.split)
    relation = summary.neighboring_relation
    change = neighbours(mechanism.unit, relation, covers_all=covers_all)
    if math.isinf(summary.epsilon):
        return f"**No finite epsilon holds** for {change}."
    pair = f"({format_epsilon(summary.epsilon)}, {format_delta(summary.delta)})"
    if covers_all:
        return (
            f"{'The weights after every step' if mechanism.trains else 'The model'}, the"
            " released figures of validation and test records, and every choice by them"
            f" are {pair}-differentially private for {change}: this holds for every"
            f" {_UNITS[mechanism.unit]} of the file, whatever its part is."
        )
    if mechanism.starts:
        return (
            "The weights after every step, together with the exports that they start"
            f" from, are {pair}-differentially private for {change}."
        )
    if not mechanism.trains:
        return (
            "No record was trained on: the model is public knowledge alone, the same"
            " whatever the training set holds. Epsilon is 0."
        )
    return (
        f"The weights after every step are {pair}-differentially private for {change}."
    )


def adversary(mechanism: Mechanism) -> str:
    """The adversary of the guarantee: its knowledge, and what is hidden from it."""
    kept = "the noise key"
    if mechanism.sampling in ("poisson", "random_allocation"):
        kept += " and which records took part in a step"
    elif mechanism.sampling == "full" and mechanism.microbatch_size > 1:
        kept += " and which records shared a micro-batch"
    return (
        "sees the weights after every step of this trial, all that is computed from"
        " them without private records, the config and the code; knows every"
        f" {_UNITS[mechanism.unit]} but one; does not see {kept}"
    )


def not_covered(mechanism: Mechanism) -> Sequence[str]:
    """The limits of the guarantee."""
    of_parts = [
        "the validation and test sets: they are other data sets, and metrics on them"
        " are released without noise",
        "the choice of this trial among others, unless the sweep's total below is taken",
    ]
    of_data = [
        "de-duplication and splitting before training: epsilon is about the realised"
        " training set"
    ]
    if mechanism.split:
        of_parts = [
            "what else the curator saw: raw figures, attacks, durations, throughput and"
            " part sizes, and choices that a person made after seeing them",
            "the other trials of the sweep, unless the sweep's total below is taken",
            "the names of labels and the number of records, as declared",
        ]
        of_data = []
    found = [
        "curator-only figures, computed from private records without noise: "
        + ", ".join(curator_only()),
        *of_parts,
        "attacks on floating-point noise (Mironov 2012), on timing, and by making"
        " training fail",
        "the float32 rounding of a step's sum, which one record can move by about 2e-7"
        " of max_grad_norm for each unit of the step, as measured",
        *of_data,
    ]
    if mechanism.unit == "couple":
        found.append(
            "one record more or less, which would couple other records anew: for one"
            " record replaced, epsilon_replace_one holds"
        )
    if mechanism.unit == "record":
        found.append(
            "a person with several records, beyond the guarantee for each single record"
        )
    if mechanism.sampling == "shuffle":
        found.append(
            "whether a record took part at all: the guarantee is for replacing one"
        )
    return found


def randomness(mechanism: Mechanism, *, secure_noise: bool) -> list[str]:
    """The source of each kind of randomness, and whether it is secret."""
    if not mechanism.trains:
        return ["nothing was drawn"]
    is_public_order = mechanism.sampling == "shuffle"
    if mechanism.reproducible_noise:
        key = "the noise key follows from the public seed: the noise is known, for tests only"
    else:
        drawn = "noise, sampling coins and micro-batch assignment come"
        key = (
            f"{'noise comes' if is_public_order else drawn} from a secret key of each"
            " attempt, drawn by the operating system and kept out of logs, metrics and"
            " exports"
        )
    generator = (
        "AES-256-CTR"
        if secure_noise
        else "the GPU's own (privacy.secure_noise=false): not a cipher, and its normals"
        " end near 6.7 standard deviations, which the guarantee does not account for"
    )
    return [
        key,
        f"noise generator: {generator}",
        "the seed governs initialisation and dropout"
        + (", and the order of records: it is public" if is_public_order else ""),
    ]


def workers(mechanism: Mechanism, processes: int) -> str:
    """Whether the N workers were separate processes."""
    workers = mechanism.num_workers
    if processes < workers:
        return (
            f"the {workers} workers were logical, played by {processes} process"
            f"{'' if processes == 1 else 'es'}: not separate parties that hide from"
            f" each other"
        )
    own = "in one process" if workers == 1 else "each a process of its own"
    return f"{formats.count(workers, 'worker')}, {own}"
