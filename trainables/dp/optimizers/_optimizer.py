"""Torch's optimisers over a flat gradient, for engines."""

import torch
from torch import Tensor, nn

from trainables.dp.flat import FlatGradient
from trainables.errors import InvalidInput


class Optimizer:
    """An optimiser of torch over the parameters of a layout in one group, its state
    under flat names `optimizer.PARAMETER.NAME`. `learning_rate` is that of the next
    step.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.learning_rate: float = optimizer.defaults["lr"]
        self._parameters: list[nn.Parameter] = optimizer.param_groups[0]["params"]
        self._optimizer = optimizer

    def step(self, gradient: FlatGradient, *, share: float) -> None:
        """Multiply `gradient` by `share`, in place, and take the step on it."""
        gradient.data.mul_(share)
        gradient.attach()
        for group in self._optimizer.param_groups:
            group["lr"] = self.learning_rate
        self._optimizer.step()
        gradient.detach()

    def state_dict(self) -> dict[str, Tensor]:
        """Copies of the state of the next step, without weights and gradient."""
        return {
            f"optimizer.{k}.{name}": torch.as_tensor(value).clone()
            for k, parameter in enumerate(self._parameters)
            for name, value in self._optimizer.state.get(parameter, {}).items()
            if value is not None
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore a `state_dict`.

        Raises: InvalidInput where the state is of another model.
        """
        for key, value in state.items():
            first, _, rest = key.partition(".")
            if first != "optimizer":
                continue
            k, _, name = rest.partition(".")
            parameter = (
                self._parameters[int(k)] if int(k) < len(self._parameters) else None
            )
            if parameter is None or (value.dim() and value.shape != parameter.shape):
                raise InvalidInput(
                    "expected optimiser state of this model, got another model's"
                )
            self._optimizer.state[parameter][name] = value.to(parameter.device).clone()
