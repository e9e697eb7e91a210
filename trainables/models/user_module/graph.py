"""A user's module as two graphs of torch's operations, one for training and one for
evaluation.

Clipping bounds a record's own gradient. State that a pass leaves behind would carry the
record into the gradients of others, past the clip and the noise. A graph has none: all
that it reads is an input (weights, buffers, constants, words), and one that writes an
input is refused. No Python of the user runs in a pass.
"""

import copy
import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export import ExportedProgram, load
from torch.export.graph_signature import InputKind

from trainables.errors import InvalidInput, TrialFailed
from trainables.models.user_module import factory as factories


@dataclass(frozen=True, eq=False)
class Described:
    """What a process of the code says of its module (`worker.described`), its graphs
    read.
    """

    modules: list[str]
    # (name, place in `tensors`, whether it is trained)
    parameters: list[tuple[str, int, bool]]
    # (name, place in `tensors`, whether it is saved)
    buffers: list[tuple[str, int, bool]]
    tensors: list[Tensor]
    longest: int | None  # the most words of a record that a pass can take
    encodes: bool  # whether it has an `encode_word`
    numbers: Tensor  # [V] or [V, F]: of some words
    graphs: dict[bool, fx.GraphModule]  # of training (True) and of evaluation
    inputs: dict[bool, list[tuple[bool, Any]]]  # of each graph, as of `inputs_of`

    @classmethod
    def of(cls, answer: dict[str, Any], *, factory: str) -> "Described":
        """Raises: InvalidInput for a graph that would keep something."""
        graphs, inputs = {}, {}
        for training, content in answer.pop("graphs").items():
            with warnings.catch_warnings(action="ignore", category=FutureWarning):
                # Of torch's own.
                program = load(io.BytesIO(content.numpy().tobytes()))
                require_pure(program, factory)
            inputs[training] = list(inputs_of(program))
            graphs[training] = _on_device(program.graph_module, torch.device("cpu"))
        return cls(**answer, graphs=graphs, inputs=inputs)


class Graph(nn.Module):
    """The module that is described, without its code. Weights and buffers have the
    names, the order and the ties of the user's module.
    """

    def __init__(self, found: Described, *, factory: str) -> None:
        super().__init__()
        self._own_factory, self._own_longest = factory, found.longest
        for name in found.modules:
            parent, own = self._own_place_of(name)
            parent.add_module(own, nn.Module())
        shared: dict[int, nn.Parameter] = {}
        for name, place, is_trained in found.parameters:
            weight = nn.Parameter(found.tensors[place].clone(), is_trained)
            parent, own = self._own_place_of(name)
            parent.register_parameter(own, shared.setdefault(place, weight))
        copies: dict[int, Tensor] = {}
        for name, place, is_saved in found.buffers:
            buffer = copies.setdefault(place, found.tensors[place].clone())
            parent, own = self._own_place_of(name)
            parent.register_buffer(own, buffer, persistent=is_saved)
        self._own_graphs = dict(found.graphs)
        self._own_inputs: dict[bool, list[str]] = {}
        for training, inputs in found.inputs.items():
            names = []
            for number, (is_named, target) in enumerate(inputs):
                name = target if is_named else f"_own_constant_{number}_{training}"
                if not is_named:
                    self.register_buffer(name, target.clone(), persistent=False)
                names.append(name)
            self._own_inputs[training] = names

    def _own_place_of(self, name: str) -> tuple[nn.Module, str]:
        """The module that has what `name` names, and its name in it."""
        parent, _, own = name.rpartition(".")
        return self.get_submodule(parent), own

    def forward(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """Words [B, T] or [B, T, F] -> scores of tags [B, T, tags] and of intents [B,
        intents].

        Raises: InvalidInput for more words than the user's module can take.
        """
        self.require_length(words.shape[1])
        given = [attrgetter(name)(self) for name in self._own_inputs[self.training]]
        tags, intents = self._own_graphs[self.training](*given, words)
        return tags, intents

    def require_length(self, words: int) -> None:
        """Raises: InvalidInput for a record of more words than the user's module can
        take.
        """
        if self._own_longest is not None and words > self._own_longest:
            raise InvalidInput(
                f"expected records of at most {self._own_longest} words, which the"
                f" forward of model.factory={self._own_factory} can take, got longer"
                " ones"
            )

    def _apply(self, *given: Any, **fields: Any) -> Any:
        """Also tensors that a pass makes are made where the weights are."""
        before = next(self.parameters()).device
        super()._apply(*given, **fields)  # type: ignore[no-untyped-call]
        device = next(self.parameters()).device
        if device != before:
            for training, graph in self._own_graphs.items():
                self._own_graphs[training] = _on_device(graph, device)
        return self


def inputs_of(program: ExportedProgram) -> Iterator[tuple[bool, Any]]:
    """The inputs of a graph before the words: (whether it has a name in the module, the
    name or else the constant).

    Raises: InvalidInput for anything but tensors.
    """
    for spec in program.graph_signature.input_specs:
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            yield True, spec.target
        elif spec.kind == InputKind.CONSTANT_TENSOR:
            yield False, program.constants[str(spec.target)]
        elif spec.kind != InputKind.USER_INPUT:
            raise InvalidInput(
                f"expected a graph of tensors alone, got an input of {spec.kind}"
            )


def require_pure(program: ExportedProgram, factory: str) -> None:
    """Refuse a graph that writes one of its inputs: a later pass would read it.

    Raises: InvalidInput.
    """
    try:
        found = program.run_decompositions({}).graph_signature
    except RuntimeError as error:  # of a constant that is written
        changed = [factories.one_line_of(error)]
    else:
        changed = [
            *found.buffers_to_mutate.values(),
            *found.parameters_to_mutate.values(),
            *found.user_inputs_to_mutate.values(),
        ]
    if changed:
        raise factories.refusal(
            factory,
            "without state (compute constants in __init__)",
            f"{changed[0]} changed by forward: it would carry records past the noise",
        )


@contextmanager
def unchanged(module: nn.Module, *, deep: bool) -> Iterator[None]:
    """A context of passes after which weights and buffers must be what they were: not
    written, as torch counts it, and where it is `deep`, equal to a copy.

    Raises: TrialFailed at its end, naming the one that is not.
    """
    every = [*module.named_parameters(), *module.named_buffers()]
    before = [
        (name, tensor, tensor._version, tensor.detach().clone() if deep else None)
        for name, tensor in every
    ]
    yield
    now = dict([*module.named_parameters(), *module.named_buffers()])
    for name, tensor, version, content in before:
        is_same = now.get(name) is tensor and tensor._version == version
        if is_same and content is not None:
            is_same = torch.equal(_bits_of(content), _bits_of(tensor))
        if not is_same:
            raise TrialFailed(
                f"expected weights and buffers that a pass leaves alone, got {name}"
                " changed: it would carry records past the noise"
            )


def are_close(a: Tensor, b: Tensor) -> bool:
    """Whether two results of one computation are equal but for rounding."""
    return torch.allclose(a, b, rtol=1e-3, atol=1e-5)


def _bits_of(tensor: Tensor) -> Tensor:
    """The bytes of a tensor, of which not-a-number equals itself."""
    return tensor.detach().to_dense().contiguous().reshape(-1).view(torch.uint8)


def _on_device(graph: fx.GraphModule, device: torch.device) -> fx.GraphModule:
    """The graph with `device` wherever an operation names one, and without torch's
    notes of the precision that was traced: a pass may have another one.
    """
    with warnings.catch_warnings(action="ignore", category=FutureWarning):
        # Of torch's own.
        moved = copy.deepcopy(graph)
    for part in moved.modules():
        if isinstance(part, fx.GraphModule):
            for node in list(part.graph.nodes):
                if node.target is torch.ops.aten._assert_tensor_metadata.default:
                    part.graph.erase_node(node)
                    continue
                node.args = tuple(
                    device if isinstance(each, torch.device) else each
                    for each in node.args
                )
                if node.kwargs.get("device") is not None:
                    node.update_kwarg("device", device)
            part.recompile()
    return moved
