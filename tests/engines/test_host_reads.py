"""What a step reads off its device: each read makes a GPU's host wait for all that is
queued.

Run on the CPU. Weights and what the batch holds count as lying on a device, and so does
all that is computed from them; a mode sees every operation and notes those whose result
the host must wait for.
"""

import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from engine_checks import OneBatch, engine_of
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from tests.models._builds import build_model, random_batch
from trainables.config.trial import parse

NUM_RECORDS = 6
# Operations whose result, or the size of it, the host has to know.
WAITING = {
    "_local_scalar_dense", "nonzero", "_unique2", "unique_dim", "unique_consecutive",
    "masked_select", "bincount", "equal", "is_nonzero", "histc",
}  # fmt: skip
METHODS = {"tolist", "numpy", "cpu", "__array__"}

# The reads of a step on a GPU, each with its reason. The batch's lengths decide what is
# launched; a record without a finite norm is rare; the CRF's range chooses the
# algorithm.
EVERYWHERE = {
    "falling_order": "lengths",
    "add_clipped": "finite norms",
    "within_range": "CRF's range",
    "_compare": "CRF's likelihood, once an epoch",
}
# Taken on a CPU only: behind `is_cuda`, or of the noise's pass over memory, which is
# `add_` where nothing is compiled.
ON_A_CPU = {"_refuse_missing_share", "add_"}


class Reads(TorchDispatchMode):
    """Counts, by the function of ours that asked, what is read of tensors on the
    device.
    """

    def __init__(self, first):
        super().__init__()
        self.places = Counter()
        self._there = WeakIdKeyDictionary()
        for tensor in first:
            self._there[tensor] = True

    def exists(self, arguments):
        return any(
            isinstance(x, Tensor) and x in self._there for x in tree_leaves(arguments)
        )

    def note(self):
        frame = sys._getframe(1)
        house = str(Path(parse.__code__.co_filename).parents[1])
        while not frame.f_code.co_filename.startswith(house):
            assert frame.f_back is not None
            frame = frame.f_back
        self.places[frame.f_code.co_name] += 1

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = function.overloadpacket.__name__
        there = self.exists((args, kwargs))
        by_mask = name in ("index", "index_put", "index_put_") and any(
            isinstance(x, Tensor) and x.dtype == torch.bool
            for x in tree_leaves(args[1])
        )
        if there and (name in WAITING or by_mask):
            self.note()
        out = function(*args, **kwargs)
        if there:
            for tensor in tree_leaves(out):
                if isinstance(tensor, Tensor):
                    self._there[tensor] = True
        return out


class Methods(TorchFunctionMode):
    """The reads that are no operation."""

    def __init__(self, reads):
        super().__init__()
        self._reads = reads

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if getattr(function, "__name__", "") in METHODS and self._reads.exists(args[0]):
            self._reads.note()
        return function(*args, **(kwargs or {}))


def reads_of(engine, loader):
    batch = loader.made
    first = [*engine.layout.parameters, engine._flat.data, engine._flat.message]
    first += [
        *batch.inputs.values(),
        batch.lengths,
        batch.intents,
        batch.tags,
        batch.text_keys,
    ]
    reads = Reads(first)
    with Methods(reads), reads:
        engine.step(0, 0)
    return reads.places


@pytest.mark.parametrize("model_name", ["clc", "bert"])
@pytest.mark.parametrize("name", ["sgd", "edp_sgd", "dp_sgd"])
def test_a_step_waits_for_its_device_in_the_named_places_only(name, model_name):
    """One that compares no sum: few do."""
    model = build_model(model_name)
    loader = OneBatch(random_batch(model, NUM_RECORDS, seed=3))
    places = reads_of(engine_of(name, model, loader), loader)
    assert set(places) <= set(EVERYWHERE) | ON_A_CPU
    assert places["add_clipped"] == (name == "dp_sgd")
    assert places["within_range"] == 1
    # `.cpu()` and `.numpy()` of a layout's lengths; BERT has two layouts, of pieces and
    # of words.
    assert places["falling_order"] == 2 * (2 if model_name == "bert" else 1)


def test_a_read_is_noticed(monkeypatch):
    """A layer that asks for a number, a method that copies to the host, a mask as an
    index.
    """
    model = build_model("clc")
    loader = OneBatch(random_batch(model, NUM_RECORDS, seed=3))
    engine = engine_of("sgd", model, loader)
    right = model._heads

    def asks(encoded):
        intent, emissions = right(encoded)
        model._known_reads(intent)
        return intent, emissions

    for read in (
        lambda x: float(x.detach().sum()),
        lambda x: x.detach().numpy(),
        lambda x: x[x > 0],
        lambda x: x.argmax(1).tolist(),
    ):
        monkeypatch.setattr(model, "_known_reads", read, raising=False)
        monkeypatch.setattr(model, "_heads", asks)
        engine._next_step = 0
        assert reads_of(engine, loader)["losses"] == 1
