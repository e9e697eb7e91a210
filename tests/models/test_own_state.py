"""A user's module has no state: what a pass changes and a later one may read is refused."""

import re

import pytest

from tests.models.test_own_model import EXAMPLE, here, model
from tests.refusals import refused
from tests.tasks.test_nlu_trial import config, place, run
from trainables import saved
from trainables.config import parse
from trainables.data.records import NO_INTENT
from trainables.errors import TrialFailed
from trainables.system import checkpoint

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
VOCABULARY = (
    "    def encode_word(self, word):\n        return self.seen.setdefault(word, len(self.seen))\n"
)


def code(*, init="", forward="", methods="", header="", build=""):
    """The guide's example with lines of its own."""

    def lines(text):
        return "".join(f"        {line}\n" for line in text.splitlines())

    made = EXAMPLE.replace(INIT, INIT + lines(init)).replace(FORWARD, FORWARD + lines(forward))
    made = made.replace("    def forward(", methods + "\n    def forward(", 1)
    if build:
        made = made.replace("    return Tagger(", f"    {build}\n    return Tagger(")
    return HEADER + header + "\n" + made


STATE = {
    "a vocabulary that grows": (
        {"init": "self.seen = {}", "methods": VOCABULARY},
        r"without state .* got Tagger\.seen changed by a pass or by encode_word",
    ),
    "a vocabulary of the file": (
        {"methods": VOCABULARY.replace("self.seen", "TABLE")},
        r"got own\.TABLE changed",
    ),
    **{
        f"{name} that words change": (
            {
                "methods": "    def encode_word(self, word):\n"
                f"        self.{name}.data += len(word)\n        return len(word)\n"
            },
            rf"got {re.escape(name)} changed",
        )
        for name in ("words.weight", "intents.bias")  # the first and the last
    },
    "a class that hides where it is from": (
        {
            "header": "class Seen:\n    words = 0\nSeen.__module__ = 'of_no_file'\n",
            "forward": "Seen.words += 1",
        },
        r"got of_no_file\.Seen\.words changed",
    ),
    "a cache of numbers in turn": (
        {
            "header": "number = functools.cache(lambda word, turn=itertools.count(): next(turn))",
            "methods": "    def encode_word(self, word):\n        return number(word) % 50\n",
        },
        r"__defaults__ changed",
    ),
    "a cache of random numbers": (
        {
            "header": "@functools.cache\ndef number(word):\n    return random.randrange(50)\n",
            "methods": "    def encode_word(self, word):\n        return number(word)\n",
        },
        "numbers that depend on the order of words",
    ),
    "a counter that sharpens at step 19": (
        {
            "init": "self.steps = 0",
            "forward": "self.steps += self.training\nx = x * (10.0 if self.steps > 18 else 1.0)",
        },
        r"without state .* got Tagger\.steps changed",
    ),
    "the class of a layer": (
        {
            "header": "class Later(torch.nn.Linear):\n    pass\n",
            "forward": "self.tags.__class__ = Later",
        },
        r"tags\.__class__ changed",
    ),
    "the class of an object": (
        {
            "header": "class Own:\n    pass\nclass Later(Own):\n    pass\n",
            "init": "self.own = Own()",
            "forward": "self.own.__class__ = Later",
        },
        r"own\.__class__ changed",
    ),
    "a list": (
        {"init": "self.kept = []", "forward": "self.kept.append(words.shape)"},
        r"Tagger\.kept",
    ),
    "a set in a tuple in a dict": (
        {"init": "self.kept = {'a': (set(),)}", "forward": "self.kept['a'][0].add(len(TABLE))"},
        r"Tagger\.kept",
    ),
    "a deque in an object of its own class that hides it": (
        {
            "header": "class Kept:\n    __slots__ = ('q',)\n    def __init__(self):\n"
            "        self.q = collections.deque(maxlen=3)\n    def __reduce__(self):\n"
            "        return (Kept, ())\n",
            "init": "self.inner = [Kept()]",
            "forward": "self.inner[0].q.append(1)",
        },
        r"Tagger\.inner\.q changed",
    ),
    "an attribute of a submodule": ({"forward": "self.norm.seen = len(words)"}, r"norm\.seen"),
    "the last states": ({"forward": "self.last = x.detach()"}, r"Tagger\.last"),
    "an array": ({"init": "self.a = np.zeros(3)", "forward": "self.a += 1"}, r"Tagger\.a "),
    "a tensor without a new version": (
        {"init": "self.t = torch.zeros(2)", "forward": "self.t.data += 1"},
        r"Tagger\.t ",
    ),
    "a buffer through NumPy": (
        {"init": "self.register_buffer('b', torch.zeros(2))", "forward": "self.b.numpy()[0] += 1"},
        r"got b changed",
    ),
    "a trained weight": ({"forward": "self.tags.bias.data += 1"}, r"got tags\.bias changed"),
    "a counter of itertools": (
        {"init": "self.turn = itertools.count()", "forward": "next(self.turn)"},
        r"Tagger\.turn",
    ),
    "a generator of Python": (
        {"init": "self.r = random.Random(3)", "forward": "x = x * self.r.choice([1.0])"},
        r"Tagger\.r ",
    ),
    "a generator of NumPy": (
        {"init": "self.r = np.random.default_rng(3)", "forward": "self.r.random()"},
        r"Tagger\.r ",
    ),
    "a generator of torch": (
        {"init": "self.r = torch.Generator()", "forward": "self.r.seed()"},
        r"Tagger\.r ",
    ),
    "a class": ({"forward": "Tagger.steps = getattr(Tagger, 'steps', 0) + 1"}, r"Tagger\.steps"),
    "a list of the file": ({"forward": "COUNT[0] += 1"}, r"own\.COUNT"),
    "a number of the file": ({"forward": "global N\nN += 1"}, r"own\.N "),
    "another file": (
        {"header": "import own_helper", "forward": "own_helper.seen.append(1)"},
        r"own_helper\.seen",
    ),
    "the class of another file": (
        {
            "build": "import own_helper; return own_helper.like(Tagger)(len(labels.tags),"
            " len(labels.intents), buckets=buckets, width=width)"
        },
        r"own_helper\.Other\.steps",
    ),
    "a closure": (
        {
            "header": "def turns():\n    n = 0\n    def turn():\n        nonlocal n\n"
            "        n += 1\n        return n\n    return turn\n",
            "init": "self.turn = turns()",
            "forward": "self.turn()",
        },
        r"turns\.<locals>\.turn\.n ",
    ),
    "a default": (
        {"header": "def keep(kept=[]):\n    kept.append(1)\n", "forward": "keep()"},
        r"own\.keep\.__defaults__",
    ),
    "an attribute of a function": (
        {"header": "def f():\n    f.n = getattr(f, 'n', 0) + 1\n", "forward": "f()"},
        r"own\.f\.n ",
    ),
    "a hook": (
        {
            "init": "seen = self.seen = []\nself.norm.register_forward_hook("
            "lambda layer, given, made: seen.append(1))"
        },
        r"\.seen|<lambda>",
    ),
    "the mode of a layer": ({"forward": "self.drop.train(False)"}, "leave the mode .* alone"),
    "what no one can compare": (
        {"init": "self.rows = (n for n in range(9))"},
        r"can be compared .* got Tagger\.rows \(generator\), which may be state",
    ),
    "of each thread": ({"init": "self.own = threading.local()"}, r"got Tagger\.own \(_local\)"),
}
STATELESS = {
    "as it is": {},
    "constants": {
        "init": "self.public = {w: i for i, w in enumerate(('call', 'ann'))}\n"
        "self.scale, self.rows = np.ones(3), torch.arange(50.0)\n"
        "self.few = torch.eye(2).to_sparse()\n"
        "self.register_buffer('places', torch.full((40, width), -torch.inf).exp())\n"
        "self.turn, self.rng, self.r = itertools.count(), random.Random(0), torch.Generator()",
        "forward": "x = x + self.places[: x.shape[-2]] * float(self.scale[0])",
        "methods": "    def encode_word(self, word):\n        return self.public.get(word, 9)\n",
    },
    "what code is made of": {
        "header": "LOG, LOCK, WORD = logging.getLogger('own'), threading.Lock(), re.compile('a')\n"
        "class Kind(enum.Enum):\n    A = 1\n"
        "@dataclasses.dataclass(frozen=True)\nclass Size:\n    width: int = 3\n"
        "    @property\n    def twice(self):\n        return 2 * self.width\n"
        "    @staticmethod\n    def one():\n        return 1\n"
        "Pair = collections.namedtuple('Pair', 'a b')\n"
        "T = typing.TypeVar('T')\nclass Some(typing.Generic[T], abc.ABC):\n    x: T\n"
        "",
        "init": "self.size, self.kind, self.pair = Size(), Kind.A, Pair(1, 2)\n"
        "self.act = functools.partial(torch.clamp, min=0.0)",
        "forward": "LOG.debug('%d', self.size.twice)\nx = self.act(x) + Size.one()",
    },
    "a cache that changes no result": {
        "header": "@functools.lru_cache\ndef places(n):\n    return torch.arange(n) / 9.0\n",
        "forward": "x = x + places(x.shape[-2]).unsqueeze(-1)",
    },
    "a hook and a parametrization": {
        "init": "nn.utils.parametrizations.weight_norm(self.around)\n"
        "self.norm.register_forward_hook(lambda layer, given, made: made * 1.5)",
    },
    "draws of every kind in training": {
        "forward": "if self.training:\n    x = x * (0.5 + random.random() + np.random.rand())"
        " * torch.rand(()).ge(0.1)",
    },
}


def write(here, made):
    (here / "own.py").write_text(made, encoding="utf-8")
    (here / "own_helper.py").write_text(HELPER, encoding="utf-8")


@pytest.mark.parametrize("name", STATE)
def test_state_is_refused_by_name(here, name):
    lines, problem = STATE[name]
    write(here, code(**lines))
    with refused(problem):
        model(factory="own:build")


@pytest.mark.parametrize("name", STATELESS)
def test_a_module_without_state_is_accepted(here, name):
    write(here, code(**STATELESS[name]))
    found = model(factory="own:build")
    with found.watched(deep=True):
        found.feature_table(["call", "ann", "b"])


LATE = {
    "a list at a length": "if words.shape[1] == 3:\n    COUNT[0] += 1",
    "in validation alone": "if words.shape[1] == 3 and not self.training:\n    COUNT[0] += 1",
    "a weight in validation": "if words.shape[1] == 3 and not self.training:\n"
    "    self.tags.bias.data += 1",
    "a weight in training": "if words.shape[1] == 3 and self.training:\n"
    "    self.tags.bias.data += 1",
    "the mode of a layer": "if words.shape[1] == 3:\n    self.drop.eval()",
    "what the next group of records takes away": "if words.shape[1] == 3:\n    COUNT.append(1)\n"
    "else:\n    del COUNT[1:]",
    "a large list that validation clears": "if self.training and words.shape[1] == 3:\n"
    "    MANY.append(1)\nelif not self.training:\n    del MANY[40_000:]",
}


@pytest.mark.parametrize("name", LATE)
@pytest.mark.parametrize("engine", ["edp_sgd", "dp_sgd"])
def test_what_changes_later_ends_the_trial_before_anything_leaves(here, place, name, engine):
    """The checks before a trial know no records of this length."""
    write(here, code(forward=LATE[name]))
    by_torch = engine == "dp_sgd" and name.startswith("a weight in")  # torch.func allows none
    problem = (
        "not allowed"
        if by_torch
        else r"got (own\.COUNT|own\.MANY|tags\.bias|the mode .*) changed by"
    )
    with pytest.raises(RuntimeError if by_torch else TrialFailed, match=problem):
        run(place, here / "trial", own(engine))
    assert not checkpoint.is_there(here / "trial")


def test_buffers_that_stay_are_resumed(here, place):
    write(here, code(**STATELESS["constants"]))
    run(place, here / "trial", own("dp_sgd"), stop_after=1)
    result, _ = run(place, here / "trial", own("dp_sgd"))
    assert result.epochs_done == 3


def own(engine):
    fields = config(engine).model_dump(mode="json")
    about = {"factory": "own:build", "word_buckets": 60, "options": {"buckets": 60, "width": 8}}
    return parse(fields | {"model": {"name": "module"} | about})


def test_the_example_has_the_places_that_lines_are_added_to():
    assert all(place in EXAMPLE for place in (INIT, FORWARD))
    assert re.search(r"def build\(", EXAMPLE)


@pytest.mark.parametrize("scores", ["inf", "nan"])
@pytest.mark.parametrize("head", ["tags", "intents"])
def test_scores_that_are_not_finite_are_errors_and_end_no_trial(here, place, scores, head):
    """Records of 3 words have none; the others count, and nothing is said of leakage but why."""
    made = code(forward=f"bad = float('{scores}') if words.shape[1] == 3 else 0.0")
    old = {"tags": "self.tags(x)", "intents": "self.intents(x.mean(dim=1))"}[head]
    write(here, made.replace(old, f"({old} + bad)"))
    chosen = own("dp_sgd")
    result, reports = run(place, here / "trial", chosen)
    assert len(reports) == 3
    assert 0.5 <= result.metrics["ser"] < float("inf")
    assert result.metrics["intent_accuracy"] <= 0.5 + 1e-9
    assert not [name for name in result.metrics if name.startswith("mia_")]
    assert any("not finite" in note for note in result.notes)
    assert not (here / "trial" / "signals.npz").exists()
    found = saved.load(here / "trial", factory="own:build")
    said = found.read([saved.unlabelled(["please", "call", "ann"]), saved.unlabelled(["call"])])
    assert [frame.intent == NO_INTENT for frame in said.frames(found.schema)] == [True, False]
