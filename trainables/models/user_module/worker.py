"""The process that runs a user's code, so that the process of a trial never imports it.

It builds the module, checks it, and answers with its weights and with two graphs of its
`forward`: one for training and one for evaluation. Another request has its words
encoded. A request is a pickle on standard input, an answer a file of `torch.save`
behind its length on standard output. What the code itself prints is thrown away: it
might quote a word.
"""

import io
import os
import pickle
import random
import re
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export, save

from trainables.data.records import LabelSchema
from trainables.dp.seeding import stream_seed, torch_seeded
from trainables.errors import InvalidInput
from trainables.models.configs import OwnCodeConfig
from trainables.models.encoders.word_vectors import bucket
from trainables.models.user_module import factory as factories
from trainables.models.user_module.graph import are_close, inputs_of

_WORDS = (
    "show",
    "me",
    "flights",
    "from",
    "Boston",
    "to",
    "o'clock",
    "4:30pm",
    "é",
    "$",
    "a",
    "18",
)
_TRACED = (3, 4)  # records and words of the pass that is traced
_COMPARED = (_TRACED, (1, 1), (1, 5), (2, 2), (4, 1), (2, 9))
_READS_WORDS = "whose forward(words) takes [records, words]"
_LONGEST = re.compile(r"length = Dim\('length', max=(\d+)\)")


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer each request until the input ends."""
    while True:
        try:
            config, schema, seed, words = pickle.load(requests)
        except EOFError:
            return
        try:
            module = built_module(config, schema, seed=seed)
            if words is None:
                answer = described(module, config, schema)
            else:
                answer = {"numbers": numbers_of(module, config, words)}
        except InvalidInput as problem:
            answer = {"refused": str(problem)}
        found = io.BytesIO()
        torch.save(answer, found)
        answers.write(len(found.getvalue()).to_bytes(8, "big") + found.getvalue())
        answers.flush()


def built_module(config: OwnCodeConfig, schema: LabelSchema, *, seed: int) -> nn.Module:
    """The factory's module, its random weights drawn from `seed`.

    Raises: InvalidInput where it fails or returns no module.
    """
    call = factories.load(config.factory)
    with torch_seeded(stream_seed(seed, "model", "module")):
        try:
            found = call(schema, **config.options)
        except Exception as error:
            raise InvalidInput(
                f"expected model.factory={config.factory} to make a module with"
                f" model.options={sorted(config.options)}, got"
                f" {factories.one_line_of(error)}"
            ) from error
    if not isinstance(found, nn.Module):
        raise InvalidInput(
            f"expected model.factory={config.factory} to return a torch.nn.Module, got"
            f" {type(found).__name__}"
        )
    return found


def numbers_of(
    module: nn.Module, config: OwnCodeConfig, words: Sequence[str]
) -> Tensor:
    """[V] or [V, F]: what `encode_word` gives for each word, or its hash bucket.

    Raises: InvalidInput, which quotes no word.
    """
    own = getattr(module, "encode_word", None)
    if own is None:
        return torch.tensor([bucket(word, config.word_buckets) for word in words])
    try:
        return torch.tensor([own(word) for word in words])
    except Exception as error:  # noqa: BLE001  the user's own code; its message may quote words
        raise InvalidInput(
            f"expected encode_word of model.factory={config.factory} to give each word"
            f" one number, or equally many, got {type(error).__name__}"
        ) from None


def described(
    module: nn.Module, config: OwnCodeConfig, schema: LabelSchema
) -> dict[str, Any]:
    """What `graph.Graph` is made of.

    Raises: InvalidInput for a module that no graph can stand for.
    """
    _require_weights(module, config)
    numbers = numbers_of(module, config, _WORDS)
    _require_scores(module, config, schema, numbers)
    graphs, lengths = {}, []
    for training in (True, False):
        program, longest = _traced(module, config, numbers, training=training)
        lengths += [] if longest is None else [longest]
        _require_same(module, config, program, numbers, longest, training=training)
        content = io.BytesIO()
        with factories.refusing(
            config.factory, "whose forward is made of torch's own operations"
        ):
            save(program, content)
        graphs[training] = torch.frombuffer(
            bytearray(content.getvalue()), dtype=torch.uint8
        )
    tensors: list[Tensor] = []
    places: dict[int, int] = {}

    def place_of(tensor: Tensor) -> int:
        if id(tensor) not in places:
            places[id(tensor)] = len(tensors)
            tensors.append(tensor.detach().clone(memory_format=torch.contiguous_format))
        return places[id(tensor)]

    every = module.named_modules(remove_duplicate=False)
    kept = module.state_dict(keep_vars=True)
    return {
        "modules": [name for name, _ in every if name],
        "parameters": [
            (name, place_of(parameter), parameter.requires_grad)
            for name, parameter in module.named_parameters(remove_duplicate=False)
        ],
        "buffers": [
            (name, place_of(buffer), name in kept)
            for name, buffer in module.named_buffers(remove_duplicate=False)
        ],
        "tensors": tensors,
        "graphs": graphs,
        "longest": min(lengths, default=None),
        "encodes": hasattr(module, "encode_word"),
        "numbers": numbers,
    }


def _require_weights(module: nn.Module, config: OwnCodeConfig) -> None:
    """Refuse weights that no step could train."""
    trained = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    if not trained:
        raise factories.refusal(config.factory, "with weights to train", "none")
    places: dict[int, str] = {}
    for name, parameter in trained:
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise factories.refusal(
                config.factory, "whose weights have their sizes", f"a lazy one, {name}"
            )
        if parameter.dtype != torch.float32:
            raise factories.refusal(
                config.factory,
                "with weights of float32",
                f"{parameter.dtype} for {name}",
            )
    for name, tensor in (*trained, *module.named_buffers()):
        if tensor.layout is not torch.strided or not tensor.numel():
            continue
        other = places.setdefault(tensor.untyped_storage().data_ptr(), name)
        # Each would have an optimiser of its own.
        if other != name and other in dict(trained):
            raise factories.refusal(
                config.factory,
                "whose weights share no memory or are one parameter (b.weight ="
                " a.weight)",
                f"{other} and {name}",
            )


def _require_scores(
    module: nn.Module, config: OwnCodeConfig, schema: LabelSchema, numbers: Tensor
) -> None:
    """Refuse scores of other shapes, and others for the same words in evaluation."""
    module.eval()
    for shape in (_TRACED, (_TRACED[0], 1)):
        words = _drawn(numbers, shape)
        wanted = [(*shape, len(schema.tags)), (shape[0], len(schema.intents))]
        with factories.refusing(config.factory, _READS_WORDS), torch.no_grad():
            found, again = module(words), module(words)
        shapes = (
            [
                tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
                for x in found
            ]
            if isinstance(found, tuple | list)
            else [type(found).__name__]
        )
        if shapes != wanted:
            raise factories.refusal(
                config.factory,
                f"that returns scores of tags and intents, {wanted} for words"
                f" {tuple(words.shape)}",
                f"{shapes}",
            )
        if not all(map(torch.equal, found, again)):
            raise factories.refusal(
                config.factory,
                "that is deterministic in eval mode",
                "two outputs for one input",
            )


def _traced(
    module: nn.Module, config: OwnCodeConfig, numbers: Tensor, *, training: bool
) -> tuple[ExportedProgram, int | None]:
    """The graph of a pass and the largest number of words that it can take, None for
    any.

    Raises: InvalidInput for a pass that has none.
    """
    module.train(training)
    words, longest = _drawn(numbers, _TRACED), None
    before = _other_draws()
    while True:
        sizes = {0: Dim("records", min=1), 1: Dim("length", min=1, max=longest)}
        try:
            program = export(module, (words,), dynamic_shapes=(sizes,), strict=False)
            break
        except Exception as error:
            # A table of places ends, and torch says where.
            limit = _LONGEST.search(str(error))
            if limit is not None and longest is None:
                longest = int(limit[1])
                continue
            raise factories.refusal(
                config.factory,
                "whose forward torch.export can trace for any number of records and"
                " words (no branch on a value or on a number of words, no .item(), no"
                " NumPy, no functools.cache, no nn.LSTM or nn.GRU: see"
                " docs/guides/own_model.md)",
                factories.one_line_of(error),
            ) from error
    if before != _other_draws():
        raise factories.refusal(
            config.factory,
            "whose forward draws by torch alone (torch.rand, nn.Dropout)",
            "random numbers of Python or NumPy, which a graph would draw once for all"
            " passes",
        )
    return program, longest


def _other_draws() -> object:
    """The state of the generators of Python and NumPy."""
    return random.getstate(), pickle.dumps(np.random.get_state())


def _require_same(
    module: nn.Module,
    config: OwnCodeConfig,
    program: ExportedProgram,
    numbers: Tensor,
    longest: int | None,
    *,
    training: bool,
) -> None:
    """Refuse a module whose Python does something else than the graph."""
    values: dict[str, Tensor] = {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }
    parameters = [p for p in module.parameters() if p.requires_grad]
    weights = {p.untyped_storage().data_ptr() for p in parameters}
    given = []
    for is_named, target in inputs_of(program):
        if not is_named and target.untyped_storage().data_ptr() in weights:
            raise factories.refusal(
                config.factory,
                "whose forward reads its weights by their attributes",
                "one in a list or a closure, whose graph would keep its first values",
            )
        given.append(values[target] if is_named else target)
    for records, length in _COMPARED:
        words = _drawn(numbers, (records, min(length, longest or length)))
        found = []
        calls: tuple[Callable[[Tensor], Any], ...] = (
            module,
            lambda words: program.graph_module(*given, words),
        )
        for call in calls:
            module.train(training)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                with factories.refusing(config.factory, _READS_WORDS):
                    scores = call(words)
                    loss = sum((each.sin() * each).sum() for each in scores)
                    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
            zero = torch.zeros(())
            dense = (zero if each is None else each.to_dense() for each in gradients)
            found.append([*scores, *dense])
        if not all(
            a.shape == b.shape and are_close(a, b) for a, b in zip(*found, strict=True)
        ):
            raise factories.refusal(
                config.factory,
                "whose forward gives at each call what its graph by torch.export gives"
                " (nothing that an earlier call has left; no branch on a number of"
                " words)",
                f"others for {records} records of {words.shape[1]} words in"
                f" {'training' if training else 'evaluation'}",
            )


def _drawn(numbers: Tensor, shape: tuple[int, int]) -> Tensor:
    """Words of records of equal length, of those in `numbers`."""
    draw = torch.Generator().manual_seed(shape[0] * 100 + shape[1])
    return numbers[torch.randint(len(numbers), shape, generator=draw)]


def main() -> None:
    """Keep the pipes of the process for requests and answers alone."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    serve(requests, answers)


if __name__ == "__main__":
    main()
