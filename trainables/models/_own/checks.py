"""Checks of a user's module on made words before it reads a record. Errors are one line."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from trainables.errors import InvalidInput, TrialFailed
from trainables.guarantee import per_record
from trainables.models._own import factory as factories
from trainables.models._own.network import OwnModel, drawn_from

_WORDS = ("show", "me", "flights", "from", "Boston", "to", "o'clock", "4:30pm", "é", "$", "a", "18")
_RECORDS, _LENGTH = 3, 4


def require_sound(model: OwnModel) -> None:
    """Refuse a module that cannot be trained record by record; its weights are unchanged.

    Raises: InvalidInput naming the unmet requirement.
    """
    was_training = model.training
    with drawn_from(0, model):
        words = model.feature_table(_WORDS).words
        records = words[torch.randint(len(words), (_RECORDS, _LENGTH))]
        others = words[torch.randint(len(words), (_RECORDS, _LENGTH))]
        others[0] = records[0]
        tags = torch.randint(model.num_tags, (_RECORDS, _LENGTH))
        intents = torch.randint(model.num_intents, (_RECORDS,))
        inputs = (records, tags, intents)
        _require_numbers(model)
        checks: tuple[Callable[[], None], ...] = (
            lambda: _require_shapes(model, records),
            lambda: _require_shapes(model, records[:, :1]),
            lambda: _require_no_mixing(model, inputs, others),
            lambda: _require_gradients(model, inputs),
            lambda: _require_by_record(model, inputs),
        )
        for check in checks:
            found: InvalidInput | None = None
            try:
                with model.watched(deep=True):
                    try:
                        check()
                    except InvalidInput as problem:
                        if problem.__cause__ is not None:  # its code fails
                            raise
                        found = problem
            except TrialFailed as state:  # which explains the rest
                raise InvalidInput(str(state)) from None
            if found is not None:
                raise found
    model.train(was_training)


def _require_numbers(model: OwnModel) -> None:
    if not model.trained:
        raise _refusal(model, "with weights to train", "none")
    places: dict[int, str] = {}
    for name, parameter in model.trained:
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise _refusal(model, "whose weights have their sizes", f"a lazy one, {name}")
        if parameter.dtype != torch.float32:
            raise _refusal(model, "with weights of float32", f"{parameter.dtype} for {name}")
        other = places.setdefault(parameter.untyped_storage().data_ptr(), name)
        if other != name and parameter.numel():  # each would have an optimiser of its own
            raise _refusal(
                model,
                "whose weights share no memory or are one parameter (b.weight = a.weight)",
                f"{other} and {name}",
            )


def _require_shapes(model: OwnModel, records: Tensor) -> None:
    wanted = [(*records.shape[:2], model.num_tags), (len(records), model.num_intents)]
    with torch.no_grad(), _in_mode(model, training=False):
        found = _try(model, lambda: model.module(records))
        shapes = (
            [tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__ for x in found]
            if isinstance(found, tuple | list)
            else [type(found).__name__]
        )
        if shapes != wanted:
            raise _refusal(
                model,
                f"that returns scores of tags and intents, {wanted} for words"
                f" {tuple(records.shape)}",
                f"{shapes}",
            )
        if not all(map(torch.equal, found, model.module(records))):
            raise _refusal(model, "that is deterministic in eval mode", "two outputs for one input")


def _require_no_mixing(
    model: OwnModel, inputs: tuple[Tensor, Tensor, Tensor], others: Tensor
) -> None:
    """Compare the first record's gradient with and without other records, also in training mode,
    which may use statistics of a batch."""
    records, tags, intents = inputs
    parameters = [p for _, p in model.trained]
    for training in (False, True):
        found = []
        for words in (records, others):
            with _in_mode(model, training=training), drawn_from(1, model):  # equal masks
                loss = _try(model, lambda: model(words, tags, intents)[0])  # noqa: B023
                grads = torch.autograd.grad(loss, parameters, allow_unused=True)
            found.append([g.to_dense() for g in grads if g is not None])
        if not all(_are_close(a, b) for a, b in zip(*found, strict=True)):
            raise _refusal(
                model,
                "that processes each record independently (layer norm instead of batch norm)",
                "a record's gradient that changes with the records beside it",
            )


def _require_gradients(model: OwnModel, inputs: tuple[Tensor, Tensor, Tensor]) -> None:
    names, parameters = zip(*model.trained, strict=True)
    with _in_mode(model, training=True):
        loss = model(*inputs)[0]
        grads = torch.autograd.grad(loss, parameters, allow_unused=True)
    unused = [name for name, grad in zip(names, grads, strict=True) if grad is None]
    if unused:
        raise _refusal(
            model,
            "whose weights all reach the loss (requires_grad_(False) for others)",
            f"no gradient for {unused[0]}"
            + (f" and {len(unused) - 1} others" if unused[1:] else ""),
        )


def _require_by_record(model: OwnModel, inputs: tuple[Tensor, Tensor, Tensor]) -> None:
    """Compare the gradients of `torch.func` with a backward pass for each record."""
    with _in_mode(model, training=True):
        try:
            per_record.gradients(model, inputs)
        except Exception as error:
            raise _refusal(
                model,
                "that torch.func can differentiate record by record (no in-place change of its own"
                " tensors, no .item(), no nn.LSTM or nn.GRU: see docs/guides/own_model.md)",
                factories.one_line_of(error),
            ) from error
    with _in_mode(model, training=False):
        found, _ = per_record.gradients(model, inputs)
        for record in range(_RECORDS):
            (loss,) = model(*(x[record : record + 1] for x in inputs))
            names, parameters = zip(*model.trained, strict=True)
            for name, truth in zip(names, torch.autograd.grad(loss, parameters), strict=True):
                if not _are_close(found[f"module.{name}"][record], truth):
                    raise _refusal(
                        model,
                        "whose gradients are the same by torch.func and by backward",
                        f"others for {name}",
                    )


def _are_close(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, rtol=1e-3, atol=1e-5)


@contextmanager
def _in_mode(model: OwnModel, *, training: bool) -> Iterator[None]:
    was = model.training
    model.train(training)
    modes = model.modes
    try:
        yield
        if modes != model.modes:
            raise _refusal(model, "whose passes leave the mode (train, eval) alone", "another mode")
    finally:
        model.train(was)


def _try(model: OwnModel, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        raise _refusal(
            model, "whose forward(words) takes [records, words]", factories.one_line_of(error)
        ) from error


def _refusal(model: OwnModel, wanted: str, got: str) -> InvalidInput:
    return InvalidInput(f"expected a module {wanted} from model.factory={model.factory}, got {got}")
