"""Modules of own code in `own_code.yaml`: refused for a state, unfit or accepted."""

import random
import sys
from collections import OrderedDict
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import nn

from tests.models._builds import random_batch
from tests.models.test_own_draws import changed
from tests.models.test_own_model import here, model, replaced
from tests.models.test_own_state import CASES, code, write
from tests.refusals import refused
from trainables.config import parse
from trainables.errors import TrialFailed
from trainables.models._own import state

__all__ = ["here"]


@pytest.fixture(autouse=True)
def _torch_as_before():
    """What own code does to torch itself is undone."""
    hooks = [table for table in vars(nn.modules.module).values() if isinstance(table, OrderedDict)]
    before = [dict(table) for table in hooks]
    gelu, forward = torch.nn.functional.gelu, nn.LayerNorm.forward
    yield
    torch.set_default_dtype(torch.float32)
    torch.nn.functional.gelu, nn.LayerNorm.forward = gelu, forward
    if hasattr(nn.Dropout, "seen"):
        del nn.modules.dropout._DropoutNd.seen
    for table, old in zip(hooks, before, strict=True):
        table.clear()
        table.update(old)


@pytest.mark.parametrize("name", CASES["refused"])
def test_state_is_refused_by_name(here, name):
    case = dict(CASES["refused"][name])
    problem = case.pop("problem")
    write(here, code(**case))
    with refused(problem):
        model(factory="own:build")


@pytest.mark.parametrize("name", CASES["accepted"])
def test_a_module_without_state_is_accepted(here, name):
    case = CASES["accepted"][name]
    if "old" in case:
        replaced(here, **case, name="own")
    else:
        write(here, code(**case))
    found = model(factory="own:build")
    with found.watched(deep=True):
        found.feature_table(["call", "ann", "b"])


@pytest.mark.parametrize(("old", "new", "problem"), CASES["unfit"])
def test_what_cannot_be_trained_is_refused(here, old, new, problem):
    name = f"unfit_{abs(hash((old, new)))}"
    with refused(problem):
        model(factory=replaced(here, old, new, name=name))


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize(("change", "is_large"), CASES["large"].items())
def test_what_is_large_is_compared_at_epochs_alone(here, change, is_large, deep):
    made = "self.few, self.many = [2] * 9, list(range(40_000))\n"
    made += "self.vector, self.matrix = torch.zeros(1_000), torch.zeros(1_100, 1_000)"
    write(here, code(init=made, methods=f"    def change(self):\n        {change}\n"))
    found = model(factory="own:build")
    if is_large and not deep:
        with found.watched():
            found.module.change()
        return
    problem = r"got (Tagger|the mode of a layer)"
    with refused(problem, TrialFailed), found.watched(deep=deep):
        found.module.change()


def test_a_factory_may_be_in_a_package(here):
    """The working directory is on the path once. A folder alone has no source to know it by."""
    (here / "own_package").mkdir()
    with refused(r"expected model\.factory=package\.module:function"):
        parse({"model": {"name": "module", "factory": "own_package:build"}})
    (here / "own_package" / "__init__.py").touch()
    (here / "my_tagger.py").rename(here / "own_package" / "tagger.py")
    for _ in range(2):
        assert model(factory="own_package.tagger:build").word_buckets == 50
    assert sys.path.count(str(here)) == 1


def test_a_package_is_installed_where_all_of_its_places_are(monkeypatch):
    half = ModuleType("half_own")
    half.__file__ = "/lib/site-packages/half_own/__init__.py"
    half.__path__ = ["/lib/site-packages/half_own", "/home/me/half_own"]
    monkeypatch.setitem(sys.modules, "half_own", half)
    assert not state._is_installed("half_own")


@pytest.mark.parametrize("draw", ["torch.rand(())", "random.random()", "float(np.random.rand())"])
def test_draws_of_every_kind_belong_to_the_step_or_to_nobody(draw, tmp_path, monkeypatch):
    new = f"self.words(words) * ({draw} if self.training else 1)"
    old = "self.drop(self.words(words))"
    found = changed(tmp_path, monkeypatch, old, new, name=f"draws_{len(draw)}")
    batch = random_batch(found, 4, seed=1)

    def loss(step):
        for fix in (torch.manual_seed, random.seed, np.random.seed):  # as a user's own would
            fix(0)
        found.begin_step(0, step)
        return found.losses(batch).sum().item()

    assert len({loss(step % 9) for step in range(18)}) == 9
    found.keep_draws_secret()
    assert len({loss(3) for _ in range(9)}) == 9


def test_scores_of_any_precision_are_read_in_single(tmp_path, monkeypatch):
    old = "self.tags(x), self.intents(x.mean(1))"
    new = ", ".join(f"{part}.double()" for part in old.split(", "))
    found = changed(tmp_path, monkeypatch, old, new, name="wide_tagger").eval()
    batch = random_batch(found, 6, seed=2)
    scores = found._heads(found.encode(batch))
    assert {x.dtype for x in (*scores, found.losses(batch))} == {torch.float32}
