"""The engine of a model that is evaluated without training; it takes no step."""

from trainables.dp.engines.engine import Engine, StepStats
from trainables.dp.sampling import SampledBatch
from trainables.errors import TrialFailed


class UntrainedEngine(Engine):
    """Reads no record. Its mechanism has no steps, so its epoch ends at once."""

    def run_epoch(self, epoch: int) -> dict[str, float]:
        """Do nothing; returns no figure."""
        return {}

    def step(self, epoch: int, step: int) -> StepStats:
        """Raises: TrialFailed, always, because a step would read records without a
        charge.
        """
        raise TrialFailed("expected no step of a model that is not trained, got one")

    def _divisor(self, draw: SampledBatch) -> float:
        raise AssertionError("no step, no divisor")

    def _fill(self, draw: SampledBatch, *, epoch: int, index: int) -> StepStats:
        raise AssertionError("no step, no gradient")
