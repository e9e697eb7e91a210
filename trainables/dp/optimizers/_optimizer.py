"""Torch's optimisers over a flat gradient, for engines."""

import torch
from torch import Tensor, nn

from trainables.dp.flat import FlatGradient
from trainables.errors import InvalidInput

_LIST = "[]"  # ends the name of a list of tensors, which is stored as one


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
        self._optimizer.step(_no_loss)
        gradient.detach()

    def state_dict(self) -> dict[str, Tensor]:
        """Copies of the state of the next step, without weights and gradient."""
        found = {}
        for k, parameter in enumerate(self._parameters):
            for name, value in self._optimizer.state.get(parameter, {}).items():
                key = f"optimizer.{k}.{name}"
                if not isinstance(value, list):
                    found[key] = torch.as_tensor(value).clone()
                elif None not in value:  # which stands for scratch memory
                    found[key + _LIST] = torch.stack(value) if value else torch.empty(0)
        return found

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
            shape = value.shape[1:] if name.endswith(_LIST) else value.shape
            size = sum(each.numel() for each in self._parameters)  # of the flat vector
            if parameter is None or shape not in ((), (size,), parameter.shape):
                raise InvalidInput(
                    "expected optimiser state of this model, got another model's"
                )
            own = value.to(parameter.device)
            self._optimizer.state[parameter][name.removesuffix(_LIST)] = (
                [each.clone() for each in own] if name.endswith(_LIST) else own.clone()
            )


def _no_loss() -> float:
    """What torch calls for the loss: only a line search would read it, and the gradient
    is there.
    """
    return 0.0
