"""Checks of every mechanism: values out of range, and combinations that no theorem covers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trainables import catalogue
from trainables.errors import InvalidInput
from trainables.sections import COUNTED_BY_STEPS

if TYPE_CHECKING:
    from trainables.privacy.mechanism import Mechanism

# Squares of gradients of a smaller norm are 0 in float32: they would pass the clip.
LEAST_GRAD_NORM = 1e-12


def refuse_out_of_range(mechanism: Mechanism) -> None:
    """Raises: InvalidInput for a number out of range."""
    if not 0 < mechanism.delta < 1:
        raise InvalidInput(f"expected 0 < delta < 1, got delta={mechanism.delta}")
    for name in ("noise_multiplier", "histogram_noise_multiplier", "decay_tau"):
        value = getattr(mechanism, name)
        if not 0 <= value < math.inf:
            raise InvalidInput(f"expected a finite {name} >= 0, got {value}")
    if not LEAST_GRAD_NORM <= mechanism.max_grad_norm < math.inf:
        raise InvalidInput(
            f"expected {LEAST_GRAD_NORM:g} <= max_grad_norm < inf, got {mechanism.max_grad_norm}"
        )
    if mechanism.cap is not None and not 0 < mechanism.cap < math.inf:
        raise InvalidInput(f"expected 0 < cap < inf, got {mechanism.cap}")
    for name in (
        *("num_records", "expected_batch_size", "num_workers", "num_microbatches"),
        *("microbatch_size", "max_records_per_group", "steps_per_epoch"),
    ):
        if getattr(mechanism, name) < 1:
            raise InvalidInput(f"expected {name} >= 1, got {getattr(mechanism, name)}")
    if mechanism.num_steps < 0:
        raise InvalidInput(f"expected num_steps >= 0, got {mechanism.num_steps}")
    if mechanism.epochs < 0 or any(epochs < 0 for epochs in mechanism.stages):
        raise InvalidInput(
            f"expected epochs >= 0, got epochs={mechanism.epochs}, stages={mechanism.stages}"
        )
    refuse_large_batch(
        mechanism.expected_batch_size, mechanism.num_records, undeclared=mechanism.undeclared
    )


def refuse_large_batch(batch: int, num_records: int, *, undeclared: tuple[str, ...]) -> None:
    """Raises: InvalidInput for a batch above n, without an n that may be counted on private
    records, because plans and reports keep the message.
    """
    if batch > num_records:
        known = "" if undeclared else f" ({num_records})"
        raise InvalidInput(
            "expected training.expected_batch_size to be at most the number of training records"
            f"{known}, got {batch}"
        )


def refuse_uncovered(mechanism: Mechanism) -> None:
    """Raises: InvalidInput for a combination that no theorem covers."""
    catalogue.entry("engines", mechanism.engine).check(mechanism)
    if mechanism.num_steps and mechanism.sampling not in COUNTED_BY_STEPS:
        raise InvalidInput(
            f"expected sampling {' or '.join(COUNTED_BY_STEPS)} with num_steps (a shuffled epoch is"
            f" spent as a whole), got {mechanism.sampling}"
        )
    if not mechanism.claims_privacy:
        return
    if mechanism.noise_calibration == "paper" and (
        mechanism.num_microbatches != mechanism.num_workers
    ):
        raise InvalidInput(
            "expected one micro-batch a worker with noise_calibration paper (Algorithm 1), got"
            f" {mechanism.num_microbatches} micro-batches on {mechanism.num_workers} workers"
        )
    if mechanism.sampling == "shuffle" and mechanism.neighboring_relation != "replace_one":
        raise InvalidInput(
            "expected neighboring_relation replace_one with sampling shuffle,"
            f" got {mechanism.neighboring_relation}"
        )
    if mechanism.sampling != "shuffle" and mechanism.neighboring_relation != "add_or_remove_one":
        raise InvalidInput(
            f"expected neighboring_relation add_or_remove_one with sampling {mechanism.sampling}"
            f" (epsilon_replace_one is reported beside it), got {mechanism.neighboring_relation}"
        )
