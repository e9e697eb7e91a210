"""A user's module keeps nothing of a record: its passes are graphs, and its words are
encoded by processes that know no other order.
"""

import shutil
import sys
from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml
from torch import nn

from tests.models._builds import SCHEMA, random_batch
from tests.models.test_own_model import EXAMPLE, here, model
from tests.refusals import refused
from tests.tasks.test_nlu_trial import config, place, run
from trainables import saved
from trainables.config.trial import model_part
from trainables.data.records import NO_INTENT
from trainables.errors import TrialFailed
from trainables.models.user_module import process, worker
from trainables.models.user_module.checks import require_sound
from trainables.models.user_module.graph import Described, unchanged
from trainables.models.user_module.network import OwnModel

__all__ = ["here", "place"]

INIT = "        self.drop = nn.Dropout(0.1)\n"
FORWARD = "        x = self.words(words)\n"
HEADER = """import collections, dataclasses, enum, functools, itertools
import abc, logging, random, re, threading, typing
import numpy as np
import torch
COUNT, TABLE, N, MANY = [0], {}, 0, list(range(40_000))
"""
HELPER = """seen = []

def like(base):
    class Other(base):
        steps = 0
        def forward(self, words):
            type(self).steps += 1
            return super().forward(words)
    Other.__qualname__ = "Other"
    return Other
"""
GROWING = """import torch
from torch import nn
KNOWN = {}
class Tagger(nn.Module):
    def __init__(self, labels):
        super().__init__()
        self.words = nn.Embedding(200, 8)
        self.tags = nn.Linear(8, len(labels.tags))
        self.intents = nn.Linear(8, len(labels.intents))
    def forward(self, words):
        x = self.words(words)
        return self.tags(x), self.intents(x.mean(dim=1))
    def encode_word(self, word):
        return KNOWN.setdefault(word.lower(), len(KNOWN))
def build(labels):
    return Tagger(labels)
"""


def code(*, init="", forward="", methods="", header="", build=""):

    def lines(text):
        return "".join(f"        {line}\n" for line in text.splitlines())

    made = EXAMPLE.replace(INIT, INIT + lines(init)).replace(
        FORWARD, FORWARD + lines(forward)
    )
    made = made.replace("    def forward(", methods + "\n    def forward(", 1)
    if build:
        made = made.replace("    return Tagger(", f"    {build}\n    return Tagger(")
    return HEADER + header + "\n" + made


ROOT = Path(__file__).resolve().parents[2]
CASES = yaml.safe_load(Path(__file__).with_name("own_code.yaml").read_text())
QUICK = {
    *(
        "a counter that sharpens at step 19",
        "a list of the file",
        "a hook",
        "a closure",
    ),
    *(
        "a hook of every module",
        "a method put into a class of a library",
        "a generator of torch",
    ),
    *(
        "the mode of a layer",
        "a weight that no step trains",
        "a buffer",
        "a tensor in place",
    ),
    *(
        "a buffer through NumPy",
        "a counter that training shows",
        "draws of Python and NumPy",
    ),
    *("a vocabulary of the file", "a cache of sizes", "the shape of zeros"),
}


def write(here, made):
    (here / "own.py").write_text(made)
    (here / "own_helper.py").write_text(HELPER)


@pytest.fixture
def torch_as_before():
    """What own code does to torch itself is undone."""
    hooks = [
        table
        for table in vars(nn.modules.module).values()
        if isinstance(table, OrderedDict)
    ]
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


def built_here(factory="own:build", **options):
    """The model as its process builds it, in this one, which takes a fifth of the
    time.
    """
    about = model_part(name="module", factory=factory, word_buckets=50, options=options)
    module = worker.built_module(about, SCHEMA, seed=0)
    answer = worker.described(module, about, SCHEMA)
    described = Described.of(answer, factory=factory)
    found = OwnModel(described, about, SCHEMA, seed=0)
    require_sound(found, described.numbers)
    return found, module


@pytest.mark.parametrize(
    "name",
    [
        n if n in QUICK else pytest.param(n, marks=pytest.mark.slow)
        for n in CASES["state"]
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_no_pass_reads_what_another_one_has_left(here, torch_as_before, name):
    """The trained graph leaves it out, or the module is refused."""
    case = dict(CASES["state"][name])
    problem = case.pop("problem", None)
    write(here, code(**case))
    if problem is not None:
        with refused(problem):
            found, _ = built_here(buckets=50)
            process.encoded_in_two_orders(
                found._config, SCHEMA, ["call", "ann", "b"], seed=0
            )
        return
    found, module = built_here(buckets=50)
    batch = random_batch(found.eval(), 3, seed=1)
    first = found.losses(batch)
    for seed in range(2, 6):
        found.losses(random_batch(found, 5, seed=seed))
        module(
            torch.randint(50, (2, 3))
        )  # its Python runs on, and the graphs know nothing of it
    assert torch.equal(first, found.losses(batch))


@pytest.mark.parametrize("name", CASES["late"])
def test_what_depends_on_a_number_of_words_is_refused(here, name):
    """The checks before a trial know no records of this length, the graph all."""
    write(here, code(forward=CASES["late"][name]))
    with refused(r"torch\.export can trace .*no branch .* on a number of words"):
        built_here(buckets=50)


def _words(*types):
    """A corpus of one record, as far as words are read."""
    return SimpleNamespace(types=types, lengths=np.array([len(types)]))


@pytest.mark.parametrize("package", ["search_spaces", "trainables"])
def test_code_in_a_package_of_ours_is_not_ours(here, monkeypatch, package):
    """A vocabulary that grows is refused wherever it stands, and this process imports
    none.
    """
    copy = here / "copy" / package
    shutil.copytree(ROOT / package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "growing_tagger.py").write_text(GROWING)
    monkeypatch.syspath_prepend(here / "copy")
    found = model(factory=f"{package}.growing_tagger:build", options={})
    with refused("numbers that depend on the order of words"):
        found.loader(_words("Call", "ann", "b"), cache_dir=here)
    assert f"{package}.growing_tagger" not in sys.modules


def test_a_trial_with_a_vocabulary_that_grows_ends_before_its_first_step(here, place):
    write(here, GROWING)
    about = {"factory": "own:build", "word_buckets": 60, "options": {}}
    with refused("numbers that depend on the order of words") as caught:
        run(place, here / "trial", config("dp_sgd", model={"name": "module"} | about))
    assert "ann" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ValueError(word)", "equally many, got ValueError"),
        ("import os; os._exit(3)", "ended with exit code 3"),
        ("print(word); return len(word)", None),
    ],
)
def test_no_word_of_a_record_is_quoted(here, capfd, body, said):
    method = f"    def encode_word(self, word):\n        if word == 'secret': {body}\n"
    write(here, code(methods=method + "        return len(word)\n"))
    found, _ = built_here(buckets=50)
    if said is None:
        assert found.feature_table(["a", "secret"]).words.tolist() == [1, 6]
    else:
        with refused(said) as caught:
            found.feature_table(["a", "secret"])
        assert "secret" not in str(caught.value)
    assert "secret" not in "".join(capfd.readouterr())


def test_the_weights_are_drawn_by_the_seed_of_the_trial(here):
    write(here, code())
    about = model_part(name="module", factory="own:build", word_buckets=50)
    first, again, other = (
        worker.built_module(about, SCHEMA, seed=seed).tags.weight for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.filterwarnings("ignore")
def test_a_graph_that_writes_its_words_is_refused(here):
    """Whoever reads the same batch again would read what a pass has left in it."""
    made = code().replace(FORWARD, "        x = self.words(words.clamp_(max=3))\n")
    write(here, made)
    with refused("words changed by forward"):
        built_here(buckets=50)


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize(
    ("write_it", "is_seen"),
    [
        (lambda m: m.fixed.add_(1), True),
        (lambda m: m.seen.mul_(2), True),
        (lambda m: setattr(m, "seen", torch.zeros(2)), True),
        (lambda m: m.fixed.data.add_(1), False),  # without a new version
        (lambda m: m.seen.numpy().__setitem__(0, 9.0), False),
    ],
)
def test_a_write_into_a_frozen_weight_or_a_buffer_is_seen(write_it, is_seen, deep):
    module = nn.Module()
    module.fixed = nn.Parameter(torch.ones(2), requires_grad=False)
    module.register_buffer("seen", torch.ones(2))
    if not (is_seen or deep):
        with unchanged(module, deep=deep):
            write_it(module)
        return
    with refused("got (fixed|seen) changed", TrialFailed), unchanged(module, deep=deep):
        write_it(module)


def test_a_table_of_places_says_where_it_ends(here):
    write(here, code(**CASES["accepted"]["a table of places that ends"]))
    found, _ = built_here(buckets=50)
    found.module(torch.zeros(1, 40, dtype=torch.int64))
    with refused("at most 40 words, .* got longer ones"):
        found.module(torch.zeros(1, 41, dtype=torch.int64))
    with refused("at most 40 words, .* got longer ones"):
        found.loader(_words(*["a"] * 41), cache_dir=here)


def test_buffers_that_stay_are_resumed(here, place):
    write(here, code(**CASES["accepted"]["constants"]))
    run(place, here / "trial", own("dp_sgd"), stop_after=1)
    result, _ = run(place, here / "trial", own("dp_sgd"))
    assert result.epochs_done == 3


def own(engine):
    about = {
        "factory": "own:build",
        "word_buckets": 60,
        "options": {"buckets": 60, "width": 8},
    }
    return config(engine, model={"name": "module"} | about)


@pytest.mark.parametrize("scores", ["inf", "nan"])
@pytest.mark.parametrize("head", ["tags", "intents"])
def test_scores_that_are_not_finite_are_errors_and_end_no_trial(
    here, place, scores, head
):
    """Records of the word "ann" have none; the others count, and nothing is said of
    leakage but why.
    """
    made = code(
        forward="bad = (words == 3).any(1, keepdim=True).float() * 2\n"
        f"bad = torch.where(bad > 1, torch.full_like(bad, float('{scores}')), 0.0)",
        methods="    def encode_word(self, word):\n"
        "        return 3 if word == 'ann' else len(word) + 9\n",
    )
    old, new = {
        "tags": ("self.tags(x)", "self.tags(x) + bad.unsqueeze(-1)"),
        "intents": ("self.intents(x.mean(dim=1))", "self.intents(x.mean(dim=1)) + bad"),
    }[head]
    write(here, made.replace(old, new))
    result, reports = run(place, here / "trial", own("dp_sgd"))
    assert len(reports) == 3
    assert 0.3 <= result.metrics["ser"] < float("inf")
    assert not [name for name in result.metrics if name.startswith("mia_")]
    assert any("not finite" in note for note in result.notes)
    assert not (here / "trial" / "signals.npz").exists()
    found = saved.load(here / "trial", factory="own:build")
    said = found.read(
        [saved.unlabelled(["please", "call", "ann"]), saved.unlabelled(["call"])]
    )
    assert [frame.intent == NO_INTENT for frame in said.frames(found.schema)] == [
        True,
        False,
    ]
