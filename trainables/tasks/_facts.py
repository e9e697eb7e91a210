"""What the privacy cards of all tasks share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from trainables import engines
from trainables.cards import card as cards
from trainables.cards.card import ClippingCheck, PrivacyCard, StepAudit
from trainables.config import TrialConfig
from trainables.engines._check import TOLERANCE
from trainables.guarantee.mechanism import Mechanism
from trainables.guarantee.noise import is_cipher
from trainables.metrics.training import CLIP_DIFFERENCE
from trainables.privacy.summary import PrivacySummary
from trainables.system.communication import Communicator
from trainables.training import Trained

_AUDIT_CALLS = 240  # under a second; `sweep audit` takes more


def privacy_card(
    config: TrialConfig,
    mechanism: Mechanism,
    summary: PrivacySummary,
    *,
    trained: Trained,
    comm: Communicator,
    corpus: str,
    public_data: bool,
    provenance: str,
    public: Sequence[str],
    attacks: Sequence[str] = (),
    by_record: bool = False,
) -> PrivacyCard:
    """The card of a trial that has `trained` epochs of its mechanism, with the figures of
    `summary`. `by_record`: its model is clipped by `torch.func`.
    """
    return cards.make(
        mechanism.first(trained.epochs_done),
        summary,
        trial_id=config.id,
        corpus=corpus,
        processes=comm.world_size,
        secure_noise=is_cipher(comm.device, secure=config.privacy.secure_noise),
        public_data=public_data,
        provenance=provenance,
        public=public,
        attacks=attacks,
        n_is_declared=public_data or config.data.num_records is not None,
        step_audit=step_audit(mechanism, comm=comm, by_record=by_record),
        clipping_check=clipping_check(trained.history),
    )


def clipping_check(history: Sequence[Mapping[str, float]]) -> ClippingCheck | None:
    """The outcome of the comparisons in all of these epochs; None where one had none."""
    found = [epoch[CLIP_DIFFERENCE] for epoch in history if CLIP_DIFFERENCE in epoch]
    if not found or len(found) < len(history):
        return None
    verdict = "pass" if max(found) <= TOLERANCE else "fail"
    return ClippingCheck(verdict=verdict, tolerance=TOLERANCE)


def step_audit(
    mechanism: Mechanism, *, comm: Communicator, by_record: bool = False
) -> StepAudit | None:
    """The audit of this trial's step on adversarial inputs without real records; None without a
    claim, and on all ranks but 0.
    """
    # Without a bound on alpha_k the worst group may have no noise to speak of.
    if comm.rank != 0 or mechanism.effective_noise_multiplier_at(0) == 0:
        return None
    # The step of one stage, because stages do not differ in the audited properties.
    own = replace(mechanism, stages=(), histogram_noise_multiplier=0.0)
    found = engines.audit_step(own, calls=_AUDIT_CALLS, by_record=by_record)
    return StepAudit(
        verdict="pass" if found.passed else "fail",
        claimed=found.claimed,
        measured=found.estimate,
        low=found.interval[0],
        high=found.interval[1],
    )
