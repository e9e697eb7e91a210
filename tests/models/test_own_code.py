"""Modules of own code in `own_code.yaml`: unfit or accepted (for a state:
`test_own_state`).
"""

import sys

import pytest
import torch

from tests.models._builds import random_batch
from tests.models.test_own_draws import changed
from tests.models.test_own_model import here, model, replaced
from tests.models.test_own_state import CASES, built_here, code, write
from tests.refusals import refused
from trainables.config.trial import parse

__all__ = ["here"]


@pytest.mark.parametrize("name", CASES["accepted"])
@pytest.mark.filterwarnings("ignore")
def test_a_module_without_state_is_accepted(here, name):
    """Its graphs give the scores of its own Python, of one word and of one record,
    too.
    """
    case = CASES["accepted"][name]
    if "old" in case:
        replaced(here, **case, name="own")
    else:
        write(here, code(**case))
    found, module = built_here(buckets=50)
    found.eval()
    module.eval()
    for shape in ((1, 1), (1, 6), (5, 1), (4, 11)):
        words = torch.randint(50, shape)
        torch.testing.assert_close(found.module(words), tuple(module(words)))
    names = [n for n, p in module.named_parameters() if p.requires_grad]
    assert [n for n, _ in found.trained] == names, "the order of a checkpoint"
    assert set(found.module.state_dict()) == set(module.state_dict())


@pytest.mark.parametrize(("old", "new", "problem"), CASES["unfit"])
def test_what_cannot_be_trained_is_refused(here, old, new, problem):
    name = f"unfit_{abs(hash((old, new)))}"
    with refused(problem):
        built_here(replaced(here, old, new, name=name), buckets=50)


def test_a_factory_may_be_in_a_package(here):
    """The working directory is on the path once. A folder alone has no source to know
    it by.
    """
    (here / "own_package").mkdir()
    with refused(r"expected model\.factory=package\.module:function"):
        parse({"model": {"name": "module", "factory": "own_package:build"}})
    (here / "own_package" / "__init__.py").touch()
    (here / "my_tagger.py").rename(here / "own_package" / "tagger.py")
    for _ in range(2):
        assert (
            model(factory="own_package.tagger:build").factory
            == "own_package.tagger:build"
        )
    assert sys.path.count(str(here)) == 1


def test_draws_belong_to_the_step_or_to_nobody(tmp_path, monkeypatch):
    new = "self.words(words) * (torch.rand(()) if self.training else 1)"
    old = "self.drop(self.words(words))"
    found = changed(tmp_path, monkeypatch, old, new, name="draws_own")
    batch = random_batch(found, 4, seed=1)

    def loss(step):
        torch.manual_seed(0)
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


def test_a_pass_is_made_where_the_weights_are_and_in_its_precision(here):
    write(here, code(**CASES["accepted"]["tensors of a pass and of a precision"]))
    found, _ = built_here(buckets=50)
    words = torch.randint(50, (2, 3))
    for training in (True, False):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            tags, _ = found.train(training).module(words)
        assert tags.dtype == torch.bfloat16
    found.to("meta")
    for training in (True, False):
        assert found.train(training).module(words.to("meta"))[0].device.type == "meta"
