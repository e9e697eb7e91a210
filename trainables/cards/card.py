"""The privacy card: the meaning of a trial's epsilon, whom it protects and what it
excludes.

Pure. The fields of a card are an allow list; other fields that are read are dropped.
`make` turns a mechanism and its figures into a card, `page` turns that into a page. The
figures of the summary (`epsilon`, `delta`, ...) are at the top level.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from trainables.cards.sentences import (
    adversary,
    guarantee,
    not_covered,
    randomness,
    workers,
)
from trainables.config.mechanism import default_delta
from trainables.dp.accounting.summary import PrivacySummary, plain
from trainables.dp.mechanism import Mechanism
from trainables.errors import InvalidData
from trainables.figures import curator_only

STARTING_WEIGHTS = "the starting weights"
COVERS = "the training records; validation and test records are not covered"
COVERS_ALL = (
    "every record of the file (each is trained on, validated on or tested on by a hash"
    " of itself alone), with the released figures and every choice by them; left are"
    " choices that a person made after a curator's view, what was declared (labels,"
    " number of records), running time and the floating point of the gradients' noise"
)
_MECHANISM = frozenset(field.name for field in fields(Mechanism))


class Document(BaseModel):
    """Plain data to publish. Its fields are an allow list; others are dropped when it
    is read.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    def to_dict(self) -> dict[str, Any]:
        """For JSON: infinity is the string "inf"."""
        found: dict[str, Any] = plain(self.model_dump())
        return found


class DataSet(Document):
    """A data set as a card names it: never by its content."""

    name: str


class StepAudit(Document):
    """The measured effective noise multiplier of the step and its interval; reads no
    record.
    """

    verdict: str | None = None
    claimed: float | None = None
    measured: float | None = None
    low: float | None = None
    high: float | None = None


class ClippingCheck(Document):
    """Whether every clipped sum that was recomputed in float64 while the trial ran was
    within `tolerance` of C. How far it was is computed from private records, so it is
    no field.

    `alone`: units were also compared with themselves without the others, as earlier
    versions did not.
    """

    verdict: str
    tolerance: float
    alone: bool = False


class Total(Document):
    """The composition of all released trials of the sweep."""

    epsilon: float
    delta: float
    accountant: str
    num_releases: int
    max_tpr_1pct: float | None = None
    neighboring_relation: str | None = None
    unaccounted: tuple[str, ...] = ()


class Selection(Document):
    """The price of the best trial alone where the number of trials was drawn at random,
    by a `law` with a `mean`, beside what that many trials cost where all are shown;
    `refused` says why there is none.
    """

    epsilon_selected: float | None = None
    delta: float | None = None
    law: str | None = None
    mean: float | None = None
    epsilon_composed: float | None = None
    epsilon_one_trial: float | None = None
    refused: str | None = None


class Review(Document):
    """Reviewer, date (YYYY-MM-DD) and decision; all None before a review."""

    reviewer: str | None = None
    date: str | None = None
    decision: str | None = None


class PrivacyCard(Document):
    """The card of one trial.

    `num_records` (n), `sample_rate` (q) and `steps` are None where n was counted on the
    private records instead of declared: such a count is for the curator alone.
    """

    trial_id: str
    epsilon: float
    delta: float | None
    accountant: str
    tight: bool
    epsilon_paper: float | None = None
    epsilon_one_trial: float | None = None
    epsilon_rdp: float
    epsilon_replace_one: float | None = None
    noise_multiplier: float
    effective_noise_multiplier: tuple[float, ...]
    neighboring_relation: str
    gaussian_mu: float
    max_tpr_1pct: float
    max_tpr_01pct: float
    max_advantage: float | None = None  # cards of earlier versions have none
    unaccounted: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    own_bounds: tuple[str, ...] = ()
    guarantee: str
    unit: str
    covers: str = COVERS
    adversary: str = ""
    sensitivity: float
    num_records: int | None = None
    expected_batch_size: int | None = None
    sample_rate: float | None = None
    steps: int | None = None
    mechanism: dict[str, Any]
    datasets: dict[str, DataSet]
    public_data: bool = False
    public: tuple[str, ...] = ()
    provenance: str = ""
    attacks: tuple[str, ...] = ()
    randomness: tuple[str, ...] = ()
    workers: str = ""
    not_covered: tuple[str, ...] = ()
    curator_only: tuple[str, ...] = ()
    step_audit: StepAudit | None = None
    clipping_check: ClippingCheck | None = None
    sweep_total: Total | None = None
    selection: Selection | None = None
    review: Review = Review()

    @property
    def sampling(self) -> str:
        """How records were assigned to steps."""
        return str(self.mechanism.get("sampling", ""))

    @property
    def scales_groups(self) -> bool:
        """Whether gradients are divided by alpha_k before the clip."""
        return bool(self.mechanism.get("group_scale", "none") != "none")

    @field_validator("mechanism")
    @classmethod
    def _of_a_mechanism(cls, given: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in given.items() if name in _MECHANISM}


def make(
    mechanism: Mechanism,
    summary: PrivacySummary,
    *,
    trial_id: str,
    corpus: str,
    processes: int = 1,
    secure_noise: bool = True,
    public_data: bool = False,
    provenance: str = "",
    public: Sequence[str] = (),
    attacks: Sequence[str] = (),
    n_is_declared: bool = True,
    step_audit: StepAudit | None = None,
    clipping_check: ClippingCheck | None = None,
) -> PrivacyCard:
    """The card of one trial. `processes` is how many processes ran the `num_workers` of
    the mechanism; `public` says what was taken for public; `attacks` names what the
    model was attacked with; `n_is_declared` is False where n was counted on private
    records.
    """
    poisson = mechanism.sampling == "poisson"
    card = PrivacyCard(
        trial_id=trial_id,
        **asdict(summary),
        guarantee=guarantee(mechanism, summary),
        unit=mechanism.unit,
        covers=COVERS_ALL if mechanism.split else COVERS,
        adversary=adversary(mechanism),
        sensitivity=mechanism.sensitivity,
        num_records=mechanism.num_records,
        expected_batch_size=mechanism.expected_batch_size,
        sample_rate=mechanism.sample_rate if poisson else None,
        steps=mechanism.steps,
        mechanism=plain(asdict(mechanism)),
        datasets={"training": DataSet(name=corpus)},
        public_data=public_data,
        public=tuple(public),
        provenance=provenance,
        attacks=tuple(attacks),
        randomness=tuple(randomness(mechanism, secure_noise=secure_noise)),
        workers=workers(mechanism, processes),
        not_covered=tuple(not_covered(mechanism)),
        curator_only=curator_only(),
        step_audit=step_audit,
        clipping_check=clipping_check,
    )
    return card if n_is_declared else _without_count(card, mechanism)


def with_starts(
    card: PrivacyCard, mechanism: Mechanism, summary: PrivacySummary
) -> PrivacyCard:
    """The card of a trial that reads exports of its own records as encoders
    (`Mechanism.starts`), with the figures of the composition. The trial, which does not
    know the exports of a home, took its starting weights for public.
    """
    public = (line for line in card.public if not line.startswith(STARTING_WEIGHTS))
    return card.model_copy(
        update={
            **asdict(summary),
            "guarantee": guarantee(mechanism, summary),
            "mechanism": plain(asdict(mechanism)),
            "public": tuple(public),
        }
    )


def _without_count(card: PrivacyCard, mechanism: Mechanism) -> PrivacyCard:
    """The card without the number of private records and what reveals it; epsilon is
    infinite.
    """
    assert math.isinf(card.epsilon)  # an undeclared n is listed under unaccounted
    hidden = counted_fields(mechanism)
    audit = (
        card.step_audit
    )  # its noise is of the last epoch's steps, whose numbers follow from n
    return card.model_copy(
        update={
            **hidden,
            **dict.fromkeys(
                ("sample_rate", "steps", "epsilon_paper", "epsilon_replace_one")
            ),
            "epsilon_rdp": math.inf,
            "warnings": (),
            "mechanism": card.mechanism | hidden,
            "step_audit": audit
            and StepAudit(verdict=audit.verdict, claimed=audit.claimed),
        }
    )


def counted_fields(mechanism: Mechanism) -> dict[str, None]:
    """Fields of a mechanism that reveal a counted number of private records, each set
    to None.
    """
    delta_tells = (
        mechanism.delta == default_delta(mechanism.num_records) < default_delta(1)
    )
    return dict.fromkeys(("num_records", *(("delta",) if delta_tells else ())))


def read(document: Any, *, where: object) -> PrivacyCard:
    """A card from its JSON, without fields that are not on the allow list.

    Raises: InvalidData for data that is no card.
    """
    try:
        return PrivacyCard.model_validate(document)
    except ValidationError as problem:
        field = ".".join(str(part) for part in problem.errors()[0]["loc"]) or "fields"
        raise InvalidData(
            f"expected a privacy card in {where}, got a damaged {field}"
        ) from None


def with_sweep(
    card: PrivacyCard, *, total: Mapping[str, Any], refused: str
) -> PrivacyCard:
    """The card with the figures of the trial's sweep.

    `total` is the composition of all released trials (`epsilon`, `delta`, `accountant`,
    `neighboring_relation`, `num_releases`); `refused` says why the best trial alone has
    no price, where the card has none.
    """
    return card.model_copy(
        update={
            "sweep_total": Total.model_validate(dict(total)),
            "selection": card.selection or Selection(refused=refused),
        }
    )
