"""Models of own code: the guide's example from a space to predictions, and what is
refused.
"""

import json
import re
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import yaml
from pydantic import ValidationError

from search_spaces import space as spaces
from sweep.planning.prepare import prepare_space
from tests.models._builds import alone, built, by_record, random_batch, sum_by
from tests.privacy import definition
from tests.refusals import refused
from tests.sweep.sweeps import settings_in
from tests.tasks.test_nlu_trial import config, place, run
from trainables import saved
from trainables.config.trial import parse
from trainables.dp.engines.gradient import GradientSource
from trainables.dp.flat import FlatGradient, Layout
from trainables.models.configs import OwnCodeConfig
from trainables.models.user_module import factory as factories
from trainables.system import checkpoint

__all__ = ["place"]

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "own_model.md"
EXAMPLE, SPACE = (
    re.search(rf"```{language}\n(.*?)```", GUIDE.read_text(), re.DOTALL)[1]
    for language in ("python", "yaml")
)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory with the guide's code; what is imported of it is
    forgotten.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_tagger.py").write_text(EXAMPLE)
    before, path = set(sys.modules), list(sys.path)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    sys.path[:] = path


def model(**fields):
    part = {
        "factory": "my_tagger:build",
        "word_buckets": 50,
        "options": {"buckets": 50},
    } | fields
    return built(name="module", **part)


def replaced(here, old, new, *, name="other"):
    """The example with other words, as a module of its own."""
    assert old in EXAMPLE
    (here / f"{name}.py").write_text(EXAMPLE.replace(old, new))
    return f"{name}:build"


def loops(found, batch, weights, bound):
    """The clipped sum by a backward pass for each record."""
    changes = {"weight_of_record": weights, "max_grad_norm": bound}
    return sum_by(definition.clipped_sum, found, batch, len(weights), **changes)[::-1]


def test_in_bf16_the_clipped_sum_keeps_to_the_bound(here):
    """Passes are rounded, the norms and the sum are not: bfloat16 alone would be off by
    4e-3.
    """
    found = model().eval()
    source = GradientSource(found)
    assert (source.per_unit, source.per_record) == (False, True)
    source.precision = "bf16"
    for seed in range(4):
        out = FlatGradient(Layout.of(found))
        norms, _ = source.add_clipped(
            random_batch(found, 1, seed=seed),
            torch.ones(1),
            out,
            unit_of_record=torch.zeros(1, dtype=torch.int64),
            num_units=1,
            max_grad_norm=0.7,
            group_scale=torch.ones(len(out.layout.names), dtype=torch.float64),
        )
        assert float(norms[0]) > 0.7
        assert float(out.data.double().norm()) == pytest.approx(0.7, rel=1e-4)


_PLACE = "self.norm = nn.LayerNorm(width)"
TIED = {
    "nothing": (_PLACE, "self.norm(x)"),
    "two layers": (
        "self.norm = nn.Linear(width, width)\n        self.twice = nn.Linear(width,"
        " width)\n        self.twice.weight = self.norm.weight",
        "self.twice(self.norm(x).tanh())",
    ),
    "scores by the table": (
        "self.norm = nn.Linear(width, buckets)\n        self.norm.weight ="
        " self.words.weight",
        "self.norm(x).tanh() @ self.words.weight",
    ),
}


def with_tied(tied):
    """The example's code with a weight that two places use."""
    declared, used = TIED[tied]
    return EXAMPLE.replace(_PLACE, declared).replace("self.norm(x)", used)


@pytest.mark.parametrize("tied", TIED)
def test_a_tied_weight_is_clipped_once_and_exactly(here, tied):
    """As in a loop over records; a model that is read back from a checkpoint is tied
    again.
    """
    name = f"tied_{tied.replace(' ', '_')}"
    (here / f"{name}.py").write_text(with_tied(tied))
    found = model(factory=f"{name}:build").eval()
    names = [n for n, p in found.named_parameters() if p.requires_grad]
    everything = found.state_dict()
    shared = {n for n in everything if n.startswith("module.")} - set(names)
    assert len(shared) == (tied != "nothing")
    batch, bound, weights = (
        random_batch(found, 9, seed=1),
        0.7,
        torch.linspace(0.5, 2.0, 9),
    )
    truth, norms = loops(found, batch, weights, bound)
    assert bool((norms > bound).any())
    *clipped, losses = by_record(found, batch, weights, bound)
    within = 1e-5 if tied == "nothing" else 1e-4
    torch.testing.assert_close(clipped, [truth, norms], rtol=within, atol=within / 10)
    torch.testing.assert_close(losses, found.losses(batch).detach())
    checkpoint.save(here / "kept", checkpoint.Checkpoint(tensors=everything, state={}))
    again = model(factory=f"{name}:build")
    with torch.no_grad():
        for parameter in again.parameters():
            parameter.zero_()
    again.load_state_dict(checkpoint.load(here / "kept").tensors)
    for each in names:
        assert torch.equal(again.state_dict()[each], everything[each])
    places = {p.data_ptr() for p in again.parameters()}
    assert {again.state_dict()[each].data_ptr() for each in shared} <= places


def test_a_record_has_the_same_score_in_any_batch(here):
    found = model().eval()
    batch = random_batch(found, 12, seed=3)
    batch.tags[::3] = batch.intents[0] = -1  # which adds nothing
    whole, losses = found.predict(batch), found.losses(batch)
    marginals = whole.token_marginals.split(batch.lengths.tolist())
    for record in range(12):
        own = alone(batch, record)
        said = found.predict(own)
        torch.testing.assert_close(
            said.intent_log_probs[0], whole.intent_log_probs[record]
        )
        torch.testing.assert_close(said.token_marginals, marginals[record])
        torch.testing.assert_close(found.losses(own)[0], losses[record])
        of_tags, of_intents = found.module(own.inputs["words"].unsqueeze(0))
        labelled = {"reduction": "sum", "ignore_index": -1}
        expected = F.cross_entropy(of_tags[0], own.tags, **labelled)
        expected = expected + F.cross_entropy(of_intents, own.intents, **labelled)
        torch.testing.assert_close(losses[record], expected)


def test_a_name_that_leads_nowhere_is_refused(here):
    for factory in ("my_tagger", "my_tagger:", "nowhere.at:all"):
        with refused(r"expected model\.factory=package\.module:function"):
            parse({"model": {"name": "module", "factory": factory}})
    with refused(r"can be imported, got AttributeError"):
        model(factory="my_tagger:nothing")
    with refused("to name a function, got str"):
        model(factory="my_tagger:__name__")
    with refused(r"of a file that can be imported .* got 'sys:exit'"):
        factories.load(
            "sys:exit"
        )  # no digest would say which code a sweep has planned with
    with refused("model.factory: expected text, got 5"):
        parse({"model": {"name": "module", "factory": 5}})
    with pytest.raises(ValidationError, match="Input should be a valid dictionary"):
        OwnCodeConfig.model_validate([])


def test_the_id_goes_with_the_source(here):
    def planned():
        return parse({"model": {"name": "module", "factory": "my_tagger:build"}})

    first = planned()
    assert planned().id == first.id
    (here / "my_tagger.py").write_text(EXAMPLE + "\n# another\n")
    assert planned().id != first.id
    again = parse(first.model_dump(mode="json"))  # as a sweep keeps it
    assert again.id == first.id
    with refused(r"with the source that was planned \(SHA-256"):
        again.model.require_usable(again.data)


@pytest.mark.parametrize(
    ("engine", "tied"),
    [
        ("sgd", True),
        ("dp_sgd", False),
        pytest.param("edp_sgd", True, marks=pytest.mark.slow),
        pytest.param("dp_sgd", True, marks=pytest.mark.slow),
    ],
)
def test_a_trial_of_own_code(here, place, engine, tied):
    """Stopped and gone on with; what it saved is read back where its code is named
    alone.
    """
    if tied:
        (here / "my_tagger.py").write_text(with_tied("two layers"))
    options = {"buckets": 60, "width": 16}
    about = {"factory": "my_tagger:build", "word_buckets": 60, "options": options}
    own = config(
        engine,
        training={"epochs": 6, "learning_rate": 0.05},
        privacy={} if engine == "sgd" else {"noise_multiplier": 0.5},
        model={"name": "module"} | about,
    )
    run(place, here / "trial", own, stop_after=1)
    result, reports = run(place, here / "trial", own)
    assert reports[-1].epochs_done == 6
    assert result.metrics["num_utterances"] == 60
    if engine == "sgd":
        assert result.metrics["ser"] < 0.5
    else:
        assert result.privacy.step_audit.verdict == "pass"
    folder = here / "trial"
    with refused(r"--factory my_tagger:build\) .* got none; its code"):
        saved.load(folder)
    with refused("got other:build"):
        saved.load(folder, factory="other:build")
    found = saved.load(folder, factory="my_tagger:build")
    assert found.read([saved.unlabelled(["call", "ann"])]).intents.shape == (1,)
    (here / "my_tagger.py").write_text(
        (here / "my_tagger.py").read_text() + "\n# later\n"
    )
    with pytest.warns(UserWarning, match="has another source than the one"):
        saved.load(folder, factory="my_tagger:build")
    assert (
        json.loads((folder / "model" / "model.json").read_text())["model"]["options"]
        == options
    )


def test_the_plan_says_that_it_is_slower(here):
    fields = yaml.safe_load(SPACE)
    fields["base"]["data"] = {"name": "communication", "num_utterances": 1_000}
    found = prepare_space(spaces.parse(fields), settings=settings_in(here))
    widths = [trial.config.model.options.get("width") for trial in found.plan.to_run]
    assert widths == [None, 16, 32]
    assert any("torch.func: exact, and slower" in note for note in found.notes)
