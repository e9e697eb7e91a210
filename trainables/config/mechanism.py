"""From a config to its mechanism, which planning, training and accounting share."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from pydantic import TypeAdapter

from trainables import catalogue
from trainables.config.trial import (
    PrivacyConfig,
    Target,
    TrainingConfig,
    TrialConfig,
    part,
)
from trainables.dp.accounting.releases import Start
from trainables.dp.mechanism import Kind, Mechanism, refuse_large_batch
from trainables.errors import InvalidInput

_STARTS = TypeAdapter(tuple[Start, ...])


def default_delta(num_records: int) -> float:
    """The delta of a guarantee where a config names none: 1e-5, or 1 / (10 n) for n =
    `num_records` where that is smaller, so that publishing a whole record is never
    within the claim (delta * n stays at most 0.1).
    """
    return min(1e-5, 1.0 / (10.0 * num_records))


def build(
    config: TrialConfig, *, num_records: int, undeclared: tuple[str, ...] = ()
) -> Mechanism:
    """The mechanism of a config on n = `num_records` training records (groups with unit
    "group").

    A target must have been replaced by a noise multiplier before
    (`accountants.resolve`).

    Raises: InvalidInput for a combination that no theorem covers.
    """
    if not config.trains and not config.model.has_prior:
        raise InvalidInput(
            "expected a model that predicts before training (model.prior=names of model"
            f" features) with engine={config.engine}, got"
            f" model.name={config.model.name}"
        )
    if config.generates:
        return _of_synthesis(config, num_records=num_records, undeclared=undeclared)
    made = build_from(
        config.engine,
        config.privacy,
        training=config.training,
        num_records=num_records,
        undeclared=undeclared,
    )
    if config.covers_all:
        made = replace(made, split=config.data.split_name)
    return made


def _of_synthesis(
    config: TrialConfig, *, num_records: int, undeclared: tuple[str, ...]
) -> Mechanism:
    """Stages on the same records, and the histogram that their prompts are drawn from.

    With shuffled pairs the programs of two records are exchanged, so each record is in
    two pairs, and both records are in the same two. The couple is the unit, which is
    drawn, clipped and counted as one. Replacing a record replaces its couple, so
    `epsilon_replace_one` covers a record; adding or removing one would change other
    couples, which is not covered.
    """
    synthesis, privacy, training = config.synthesis, config.privacy, config.training
    if synthesis.shuffle_pairs:
        num_records //= 2
        privacy = privacy.model_copy(
            update={"unit": "couple", "max_records_per_group": 2}
        )
        half = max(1, training.expected_batch_size // 2)
        training = training.model_copy(update={"expected_batch_size": half})
    made = build_from(
        config.engine,
        privacy,
        training=training,
        num_records=num_records,
        undeclared=undeclared,
    )
    if synthesis.parse_epochs is not None:
        first = synthesis.parse_epochs
        made = replace(made, stages=(first, training.epochs - first))
    method = catalogue.entry("generation", synthesis.method)
    if method.reads_prompts and made.claims_privacy:
        if synthesis.histogram == "dp":
            made = replace(
                made, histogram_noise_multiplier=synthesis.histogram_noise_multiplier
            )
        elif synthesis.histogram == "true":
            reason = "the prompts' frequencies are the private records' own (synthesis.histogram)"
            made = replace(made, undeclared=(*made.undeclared, reason))
    return made


def with_noise(config: TrialConfig, z: float) -> TrialConfig:
    """The config with the noise multiplier `z` (standard deviation of the noise over
    the clip norm) in place of a number or a target; every other field stays. It is
    another trial with another id.
    """
    privacy = config.privacy.model_copy(update={"noise_multiplier": z})
    return config.model_copy(update={"privacy": privacy})


def claims_privacy(engine: str) -> bool:
    """Whether an engine of that name clips and adds noise, so that its trials have an
    epsilon to account for. True for one that is not installed: a plan of another
    installation must not show its trials as free of privacy, and fails later by name.

    >>> claims_privacy("not installed")
    True
    """
    return catalogue.kind_of("engines", engine) not in ("plain", "prior")


def _decay_of(privacy: PrivacyConfig, epochs: int) -> tuple[float, ...]:
    """d(t) of each epoch."""
    decay = privacy.noise_decay
    if decay.kind == "none":
        return ()
    factor = catalogue.entry("schedules", decay.kind).factor
    return tuple(float(factor(epoch, tau=decay.tau)) for epoch in range(epochs))


def from_plain(fields: Mapping[str, Any]) -> Mechanism:
    """The mechanism of a privacy card or a ledger from its plain `fields`; lists become
    tuples, and a field that did not exist when the card was written has its default.

    Raises: InvalidInput where the fields are out of range or no theorem covers them.
    """
    lists = {
        name: tuple(fields[name]) for name in ("noise_decay", "undeclared", "stages")
    }
    starts = _STARTS.validate_python(
        fields.get("starts", ())
    )  # cards of before have none
    return Mechanism(**{**fields, **lists, "starts": starts})


def build_from(
    engine: str,
    privacy: PrivacyConfig | dict[str, Any],
    *,
    training: TrainingConfig,
    num_records: int,
    undeclared: tuple[str, ...] = (),
) -> Mechanism:
    """As `build`, from the parts of a config that a mechanism reads."""
    if isinstance(privacy, dict) or getattr(privacy, "engine", None) != engine:
        found: PrivacyConfig = part("privacy", privacy, engine=engine)
        privacy = found
    z = privacy.noise_multiplier
    if isinstance(z, Target):
        raise InvalidInput(
            "expected a noise multiplier, got a target: calibrate it first"
        )
    if num_records < 1:
        raise InvalidInput(f"expected num_records >= 1, got {num_records}")
    sampling = privacy.sampling or "shuffle"
    relation = privacy.neighboring_relation or (
        "replace_one" if sampling == "shuffle" else "add_or_remove_one"
    )
    calibration = privacy.noise_calibration or "paper"
    batch = num_records if sampling == "full" else training.expected_batch_size
    workers = training.num_workers
    refuse_large_batch(batch, num_records, undeclared=undeclared)
    microbatch = _microbatch_size(privacy, batch, workers)
    made = Mechanism(
        engine=engine,
        kind=cast(Kind, catalogue.kind_of("engines", engine)),
        num_records=num_records,
        expected_batch_size=batch,
        epochs=training.epochs,
        num_workers=workers,
        num_microbatches=batch // microbatch,
        microbatch_size=microbatch,
        sampling=sampling,
        neighboring_relation=relation,
        noise_calibration=calibration,
        noise_multiplier=z,
        max_grad_norm=privacy.max_grad_norm,
        group_scale=privacy.group_scale.name,
        normalise=privacy.group_scale.normalise,
        cap=privacy.group_scale.cap,
        noise_decay=_decay_of(privacy, training.epochs),
        delta=privacy.delta or default_delta(num_records),
        unit=privacy.unit,
        max_records_per_group=1
        if privacy.unit == "record"
        else privacy.max_records_per_group,
        reproducible_noise=privacy.reproducible_noise,
        undeclared=undeclared,
        num_steps=training.steps or 0,
        steps_per_epoch=min(training.evaluate_every, training.steps or 1),
    )
    privacy.check(made)
    return made


def _microbatch_size(privacy: PrivacyConfig, batch: int, workers: int) -> int:
    """The number of records clipped as one: the configured one, or a worker's whole
    batch.

    Raises: InvalidInput for a batch that does not fit the workers or micro-batches.
    """
    full = privacy.sampling == "full"
    if batch % workers and not (full and privacy.microbatch_size == 1):
        raise InvalidInput(
            "expected training.expected_batch_size to be a multiple of num_workers"
            f" ({workers}), got {batch}"
        )
    microbatch = privacy.microbatch_size or batch // workers
    if batch % (microbatch * workers) and not (full and microbatch == 1):
        raise InvalidInput(
            "expected privacy.microbatch_size to divide a worker's batch"
            f" ({batch // workers}), got {microbatch}"
        )
    return microbatch
