"""What the privacy cards of all tasks share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trainables import engines
from trainables.cards import card as cards
from trainables.cards.card import PrivacyCard, StepAudit
from trainables.config import TrialConfig
from trainables.guarantee.mechanism import Mechanism
from trainables.guarantee.noise import is_cipher
from trainables.privacy.summary import PrivacySummary
from trainables.system.communication import Communicator

_AUDIT_CALLS = 240  # under a second; `sweep audit` takes more


def privacy_card(
    config: TrialConfig,
    mechanism: Mechanism,
    summary: PrivacySummary,
    *,
    epochs_done: int,
    comm: Communicator,
    corpus: str,
    public_data: bool,
    provenance: str,
    public: Sequence[str],
    attacks: Sequence[str] = (),
    by_record: bool = False,
) -> PrivacyCard:
    """The card of a trial that has trained `epochs_done` epochs of its mechanism, with the figures
    of `summary`. `by_record`: its model is clipped by `torch.func`.
    """
    return cards.make(
        mechanism.first(epochs_done),
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
    )


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
