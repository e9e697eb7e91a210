"""The privacy cost of each planned trial, from its config and the public size of its
data.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING

from sweep import status
from sweep.settings import Settings
from sweep.spending.exports import Exports
from sweep.store.data_sets import TrainingData, open_data, open_pair_data
from trainables.config.calibrate import resolve
from trainables.config.trial import (
    DataConfig,
    SynthesisConfig,
    Target,
    TrainingConfig,
    TrialConfig,
    model_part,
    part,
)
from trainables.data.pair_split import num_private_records
from trainables.data.sizes import (
    declared_training_size,
    num_training_records,
    require_declared_size,
    require_known_size,
    require_near,
)
from trainables.dp import engines
from trainables.dp.accounting.releases import Start
from trainables.dp.accounting.summary import PrivacySummary
from trainables.dp.mechanism import Mechanism
from trainables.errors import InvalidInput
from trainables.figure_cache import FigureCache, key_of
from trainables.models.encoders.about import require_unlearnt
from trainables.models.encoders.named_files import encoders_of
from trainables.tasks import _synthesis_checks as checks

if TYPE_CHECKING:
    from sweep.spending.ledger import Ledger


@dataclass(frozen=True, kw_only=True)
class Accounted:
    """The accounting of a config: its figures and its mechanism."""

    summary: PrivacySummary
    mechanism: Mechanism


@dataclass(frozen=True)
class TrainingSize:
    """n, and the reasons why it or other inputs were read from private records."""

    num_records: int
    undeclared: tuple[str, ...] = ()


@dataclass(frozen=True)
class Accounting:
    """Accounts for configs with the data sets under these settings, the figures that are
    known there, and the exports and the ledger of their home. A command makes one and
    hands it on: what it has read of them is not read again. Not for several threads.
    """

    settings: Settings

    @cached_property
    def figures(self) -> FigureCache:
        """The figures that are known."""
        return FigureCache(self.settings.cache_dir)

    def __call__(
        self,
        config: TrialConfig,
        *,
        accountant: str | None = None,
        careful: bool = False,
    ) -> Accounted:
        """The figures of one config; `accountant` None means the tightest sound one.
        `careful` selects a finer and slower bound than that of planning.

        Raises: InvalidInput for a mechanism that is refused.
        """
        if config.generates:
            _require_ready(config, self.settings)
        _require_model(config, self.settings)
        starts = self._starts_of(config)
        calibrated = isinstance(config.privacy.noise_multiplier, Target)
        size = size_of(config, self.settings)
        if calibrated:
            status.enter(status.CALIBRATING)
        _, mechanism = self.figures.resolve(
            config, num_records=size.num_records, undeclared=size.undeclared
        )
        mechanism = replace(mechanism, starts=starts)
        chosen = accountant or config.privacy.accountant
        # A named accountant's figure is the one that the trial reports, whatever others
        # find.
        finest = chosen is None and (careful or calibrated)
        summary = self.figures.summary(
            key_of(mechanism, accountant=chosen, finest=finest),
            lambda: _bounds(mechanism, chosen, finest=finest),
        )
        return Accounted(summary=summary, mechanism=mechanism)

    def _starts_of(self, config: TrialConfig) -> tuple[Start, ...]:
        """What the encoders of a config have released about records of its data.

        Raises: InvalidInput as `Exports.starts`, and for such encoders of generated
            text, whose files state the guarantee of their training alone.
        """
        encoders = encoders_of(dict(config.model))
        if not encoders:
            return ()
        given = (encoders, config.data)
        if given not in self._starts:
            is_private = not config.data.is_public
            self._starts[given] = self.exports.starts(
                encoders, partial(self.data_of, config), is_private=is_private
            )
        if config.covers_all and self._starts[given]:
            raise InvalidInput(
                "expected model.encoder that has not learnt from the records of"
                f" {config.data.name} with privacy.covers=all, got"
                f" {', '.join(encoders)}, an export that was trained on some of them:"
                " name a public model"
            )
        if config.generates and self._starts[given]:
            raise InvalidInput(
                "expected model.encoder that has not learnt from the records of"
                f" {config.data.name} with task={config.task}, got"
                f" {', '.join(encoders)}, an export that was trained on them: name a"
                " public model"
            )
        return self._starts[given]

    @cached_property
    def exports(self) -> Exports:
        """The exports of the home."""
        return Exports(self.settings.home)

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger of the home."""
        from sweep.spending.ledger import FILE, Ledger  # which takes a second

        return Ledger(self.settings.home / FILE)

    @cached_property
    def _starts(self) -> dict[tuple[tuple[str, ...], DataConfig], tuple[Start, ...]]:
        return {}

    def mechanism(self, config: TrialConfig) -> Mechanism:
        """The mechanism that is charged and trained: as a call's, but with the noise of
        a target computed and certified here instead of read from the cache, as
        the trial does.

        Raises: InvalidInput for a mechanism that is refused.
        """
        size = size_of(config, self.settings)
        _, mechanism = resolve(
            config, num_records=size.num_records, undeclared=size.undeclared
        )
        return replace(mechanism, starts=self._starts_of(config))

    def data_of(self, config: TrialConfig) -> TrainingData:
        """The data set of a config. Raises: InvalidInput for data that cannot be
        used.
        """
        if config.generates:
            return open_pair_data(config.data, self.settings)
        return open_data(config.data, self.settings)

    def registered_data(self, config: TrialConfig) -> TrainingData:
        """As `data_of`, with the hashes of its records in the home, by which the ledger
        knows data sets that share some. Before anything is charged to them.
        """
        data = self.data_of(config)
        self.ledger.key.register(data.fingerprint, data.texts())
        return data


def _require_model(config: TrialConfig, settings: Settings) -> None:
    """Raises: InvalidInput for a model that no trial could train."""
    config.model.require_usable(config.data)
    if not config.generates and not config.data.is_public:
        for encoder in encoders_of(dict(config.model)):
            _require_unlearnt(encoder, config.data, settings)
    if config.model.is_built_when_planned:
        _require_built(config.model.model_dump_json(), config.data, settings)


@lru_cache(maxsize=256)
def _require_unlearnt(encoder: str, data: DataConfig, settings: Settings) -> None:
    require_unlearnt(encoder, open_data(data, settings))


@lru_cache(maxsize=256)
def _require_built(model: str, data: DataConfig, settings: Settings) -> None:
    own = model_part(**json.loads(model))
    own.build(schema=open_data(data, settings).schema, seed=0)


def _bounds(
    mechanism: Mechanism, accountant: str | None, *, finest: bool
) -> PrivacySummary:
    """Compute the bounds, which needs the accounting library and up to seconds."""
    from trainables.dp.accounting import choose

    summary = choose.account(mechanism, exact=False, accountant=accountant)
    if finest and not summary.tight:
        # The planning bound may be slightly above the target of the noise.
        finer = choose.epsilon_after(mechanism, mechanism.epochs)
        summary = replace(summary, epsilon=min(summary.epsilon, finer))
    return summary


def size_of(config: TrialConfig, settings: Settings) -> TrainingSize:
    """The number of training records, declared or else counted.

    Raises: InvalidData where the data must be opened and cannot be, or where the
        declared number is far from the real one.
    """
    if config.generates:
        return _size_of_pairs(config.data, config.synthesis, settings)
    return _size_of(config.data, settings, by_group=config.privacy.unit == "group")


@lru_cache(maxsize=256)
def _size_of(config: DataConfig, settings: Settings, *, by_group: bool) -> TrainingSize:
    declared = declared_training_size(config)
    if declared is not None and config.is_public:
        if not by_group:
            require_known_size(config)
        return TrainingSize(declared)
    corpus = open_data(config, settings)
    require_declared_size(config, corpus, by_group=by_group)
    return TrainingSize(num_training_records(config, corpus), corpus.undeclared)


@lru_cache(maxsize=256)
def _size_of_pairs(
    config: DataConfig, synthesis: SynthesisConfig, settings: Settings
) -> TrainingSize:
    pairs = open_pair_data(config, settings)
    if config.num_records is not None:
        counted = config.model_copy(update={"num_records": None})
        found, _ = num_private_records(pairs, counted, synthesis)
        require_near(config.num_records, found, by_group=False, is_public=pairs.public)
    return TrainingSize(*num_private_records(pairs, config, synthesis))


def _require_ready(config: TrialConfig, settings: Settings) -> None:
    """Raises: InvalidInput where the trial would fail before its first step."""
    plain = engines.BASELINE
    parts = {
        "training": TrainingConfig(),
        "privacy": part("privacy", {}, engine=plain),
        "engine": plain,
    }
    _ready(config.model_copy(update=parts), settings)


@lru_cache(maxsize=256)
def _ready(config: TrialConfig, settings: Settings) -> None:
    """The check of a config without its mechanism, cached for equal configs."""
    checks.require_ready(config, open_pair_data(config.data, settings))
    if checks.learns_from_public_text(config):
        _require_unlearnt_pairs(config.data, settings)


@lru_cache(maxsize=256)
def _require_unlearnt_pairs(data: DataConfig, settings: Settings) -> None:
    pairs = open_pair_data(data, settings)
    if not pairs.public:
        checks.require_unlearnt(
            pairs, checks.public_utterances(data_dir=settings.data_dir)[0]
        )
