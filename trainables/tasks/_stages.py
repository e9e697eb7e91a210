"""Several models trained one after another under one mechanism, as a single learner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor, nn

from trainables import catalogue
from trainables.config import TrialConfig
from trainables.data.texts import EncodedTexts
from trainables.engines import Engine
from trainables.guarantee.mechanism import Mechanism
from trainables.guarantee.noise import SecretKey
from trainables.guarantee.population import Ids
from trainables.system.communication import Communicator
from trainables.tasks._frame import engine_setup


class StagedEngine:
    """Epochs 0..T1-1 of a mechanism train its first model, the next T2 the second.

    Each stage has a separate engine, with separate streams of noise and coins.
    """

    def __init__(self, parts: Mapping[str, Engine], epochs: Mapping[str, int]) -> None:
        self.parts = dict(parts)
        self._epochs = dict(epochs)

    def stage_of(self, epoch: int) -> tuple[str, int]:
        """The stage that an epoch belongs to, and its number in it."""
        for stage, length in self._epochs.items():
            if epoch < length:
                return stage, epoch
            epoch -= length
        raise ValueError("expected an epoch of the mechanism")

    def run_epoch(self, epoch: int) -> dict[str, float]:
        """All steps of an epoch."""
        stage, own = self.stage_of(epoch)
        return self.parts[stage].run_epoch(own)

    def state_dict(self) -> dict[str, Tensor]:
        """The engines' states, each under its stage."""
        return {
            f"{stage}.{name}": tensor
            for stage, engine in self.parts.items()
            for name, tensor in engine.state_dict().items()
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore a `state_dict`."""
        for stage, engine in self.parts.items():
            prefix = f"{stage}."
            engine.load_state_dict(
                {n.removeprefix(prefix): t for n, t in state.items() if n.startswith(prefix)}
            )


def staged_engine(
    config: TrialConfig,
    mechanism: Mechanism,
    models: Mapping[str, nn.Module],
    texts: Mapping[str, EncodedTexts],
    *,
    ids: Ids,
    groups: Ids | None,
    key: SecretKey,
    comm: Communicator,
) -> StagedEngine:
    """The engine of a trial; `texts` are addressed by 0..n-1 and `ids` are all of them."""
    lengths = dict(zip(models, mechanism.stages or (mechanism.epochs,), strict=True))
    make = catalogue.entry("engines", config.engine).make
    parts = {}
    for stage, model in models.items():
        own = replace(mechanism, epochs=lengths[stage], stages=(), histogram_noise_multiplier=0.0)
        parts[stage] = make(
            model,
            own,
            engine_setup(
                config,
                mechanism=own,
                loader=texts[stage],
                ids=ids,
                groups=groups,
                comm=comm,
                key=key,
                # This name separates the noise streams of the stages.
                trial_id=f"{config.id}/{stage}",
            ),
        )
    return StagedEngine(parts, lengths)
