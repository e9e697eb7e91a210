"""Checks of a user's module on made words before it reads a record. Errors are one
line.
"""

import torch
from torch import Tensor

from trainables.dp import per_record
from trainables.models.user_module import factory as factories
from trainables.models.user_module.graph import are_close
from trainables.models.user_module.network import OwnModel, drawn_from

_RECORDS, _LENGTH = 3, 4


def require_sound(model: OwnModel, numbers: Tensor) -> None:
    """Refuse a module that cannot be trained record by record; its weights are
    unchanged. `numbers` are those of some words.

    Raises: InvalidInput naming the unmet requirement.
    """
    was_training = model.training
    with drawn_from(0, model), model.watched(deep=True):
        records = numbers[torch.randint(len(numbers), (_RECORDS, _LENGTH))]
        others = numbers[torch.randint(len(numbers), (_RECORDS, _LENGTH))]
        others[0] = records[0]
        tags = torch.randint(model.num_tags, (_RECORDS, _LENGTH))
        intents = torch.randint(model.num_intents, (_RECORDS,))
        inputs = (records, tags, intents)
        _require_no_mixing(model, inputs, others)
        _require_gradients(model, inputs)
        _require_by_record(model, inputs)
    model.train(was_training)


def _require_no_mixing(
    model: OwnModel, inputs: tuple[Tensor, Tensor, Tensor], others: Tensor
) -> None:
    """Compare the first record's gradient with and without other records, also in
    training mode, which may use statistics of a batch.
    """
    records, tags, intents = inputs
    parameters = [p for _, p in model.trained]
    for training in (False, True):
        found = []
        for words in (records, others):
            model.train(training)
            with drawn_from(1, model):  # equal masks
                loss = model(words, tags, intents)[0]
                grads = torch.autograd.grad(loss, parameters, allow_unused=True)
            found.append([g.to_dense() for g in grads if g is not None])
        if not all(are_close(a, b) for a, b in zip(*found, strict=True)):
            raise factories.refusal(
                model.factory,
                "that processes each record independently (layer norm instead of batch"
                " norm)",
                "a record's gradient that changes with the records beside it",
            )


def _require_gradients(model: OwnModel, inputs: tuple[Tensor, Tensor, Tensor]) -> None:
    names, parameters = zip(*model.trained, strict=True)
    model.train()
    loss = model(*inputs)[0]
    grads = torch.autograd.grad(loss, parameters, allow_unused=True)
    unused = [name for name, grad in zip(names, grads, strict=True) if grad is None]
    if unused:
        raise factories.refusal(
            model.factory,
            "whose weights all reach the loss (requires_grad_(False) for others)",
            f"no gradient for {unused[0]}"
            + (f" and {len(unused) - 1} others" if unused[1:] else ""),
        )


def _require_by_record(model: OwnModel, inputs: tuple[Tensor, Tensor, Tensor]) -> None:
    """Compare the gradients of `torch.func` with a backward pass for each record."""
    model.train()
    with factories.refusing(
        model.factory,
        "that torch.func can differentiate record by record (no in-place change of its"
        " own tensors, no .item(), no nn.LSTM or nn.GRU: see docs/guides/own_model.md)",
    ):
        per_record.gradients(model, inputs)
    model.eval()
    found, _ = per_record.gradients(model, inputs)
    names, parameters = zip(*model.trained, strict=True)
    for record in range(_RECORDS):
        (loss,) = model(*(x[record : record + 1] for x in inputs))
        truths = torch.autograd.grad(loss, parameters)
        for name, truth in zip(names, truths, strict=True):
            if not are_close(found[f"module.{name}"][record], truth):
                raise factories.refusal(
                    model.factory,
                    "whose gradients are the same by torch.func and by backward",
                    f"others for {name}",
                )
