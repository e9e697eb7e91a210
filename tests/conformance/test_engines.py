import ast
import re
from pathlib import Path

import pytest
import torch

from dashboards import palette, report
from search_spaces import space as spaces
from search_spaces.paths import set_path
from sweep.planning import plan as planning
from sweep.planning.accounting import Accounting
from tests.dashboards import samples
from tests.engines.engine_checks import SIZE, engine_on
from tests.refusals import refused
from tests.sweep.sweeps import settings_in
from trainables import catalogue
from trainables.config.mechanism import build
from trainables.config.trial import parse
from trainables.dp import engines
from trainables.dp.engines.configs import EngineConfig
from trainables.fields import written_fields

_NAMES = catalogue.names("engines")
_PRIVATE = catalogue.names("engines", kind="private")
_TRAINS = (*_PRIVATE, *catalogue.names("engines", kind="plain"))
_ROOT = Path(__file__).resolve().parents[2]
# Another value for each field of `privacy`, of which the engine may lack some.
_OTHER = {
    "max_grad_norm": 0.3,
    "noise_multiplier": 7.0,
    "noise_decay": {"kind": "linear", "tau": 0.1},
    "group_scale": "first_step_noised",
    "delta": 1e-7,
    "secure_noise": False,
    "reproducible_noise": True,
    "accountant": "rdp",
}


@pytest.mark.parametrize("name", _NAMES)
def test_the_contract(name):
    entry = catalogue.entry("engines", name)
    assert set(entry.tasks) <= set(catalogue.names("tasks"))
    assert entry.tasks
    assert issubclass(entry, EngineConfig)
    assert entry().engine == name
    assert isinstance(entry.has_paper_figure, bool)
    assert entry.__doc__
    assert palette.name(name) == entry.style.label != name
    for colour in (entry.style.light, entry.style.dark):
        assert re.fullmatch(r"#[0-9A-Fa-f]{6}", colour)


def test_one_is_the_default_and_one_the_baseline():
    assert catalogue.default("engines") in _PRIVATE
    assert catalogue.kind_of("engines", engines.BASELINE) == "plain"


@pytest.mark.parametrize("name", _NAMES)
def test_it_has_the_fields_that_it_reads_and_no_other(name):
    known = written_fields(catalogue.entry("engines", name))
    usual = parse({"engine": name})
    assert parse(usual.model_dump(mode="json")) == usual
    for field, value in _OTHER.items():
        fields = {"engine": name, "privacy": {field: value}}
        if field in known:
            assert parse(fields).id != usual.id
            continue
        with refused(rf"^unknown field privacy\.{field} for engine "):
            parse(fields)
        assert field not in usual.model_dump()["privacy"]


@pytest.mark.parametrize("name", _NAMES)
def test_its_default_is_a_mechanism_that_it_runs(name):
    model = {} if name in _TRAINS else {"name": "features"}
    fields = {"engine": name, "model": model, "training": {"num_workers": 1}}
    made = build(parse(fields), num_records=2_560)
    catalogue.entry("engines", name).check(made)
    assert made.claims_privacy == made.is_private == (name in _PRIVATE)
    assert made.trains == (name in _TRAINS)
    assert made.is_free == (not made.trains)
    if not made.trains:
        assert made.steps == 0
        return
    units = [[0], [1]] if name in _PRIVATE and made.microbatch_size == 1 else [[0, 1]]
    engine = engine_on(made, torch.randn(100, SIZE), units)
    engine.step(0, 0)
    assert torch.isfinite(engine.released).all()
    assert (made.unaccounted == ()) == (name in _PRIVATE)


@pytest.mark.parametrize("name", _PRIVATE)
def test_what_is_audited_of_it_can_be_built(name):
    audited = catalogue.entry("engines", name).audited
    assert audited
    for changes in audited:
        fields = {"engine": name}
        for path, value in changes.items():
            fields = set_path(fields, path, value)
        assert build(parse(fields), num_records=2_560).is_private


def test_no_module_names_an_engine_outside_its_file():
    """So that a new one is one file. Comments may."""
    word = re.compile(rf"(?<![\w-])({'|'.join(_NAMES)})(?![\w-])")
    found = []
    for folder in ("sweep", "dashboards", "search_spaces", "trainables"):
        for file in sorted((_ROOT / folder).rglob("*.py")):
            if file.parent.name == "engines":
                continue
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found += [f"{file.name}:{node.lineno}"] * bool(
                        word.search(node.value)
                    )
    assert found == []


HALVED = '''
from typing import Annotated, Literal

from pydantic import Field

from trainables.dp.engines.configs import ChartStyle, PrivacyConfig
from trainables.errors import InvalidInput
from trainables.fields import INTERNAL_DISCRIMINATOR


class QuietConfig(PrivacyConfig):
    """DP-SGD that adds a declared share of its noise."""

    kind = "private"
    component = "trainables.dp.engines._private:PrivateEngine"
    style = ChartStyle(label="Quiet SGD", light="#123456", dark="#abcdef", mark="square")

    engine: Annotated[Literal["quiet"], INTERNAL_DISCRIMINATOR] = "quiet"
    sampling: str | None = "poisson"
    microbatch_size: int | None = 1
    noise_calibration: str | None = "central"
    loudness: float = Field(0.5, gt=0)

    @classmethod
    def check(cls, mechanism):
        if mechanism.num_workers != 1:
            raise InvalidInput(f"expected training.num_workers=1, got {mechanism.num_workers}")
'''


@pytest.fixture
def quiet(drop_in):
    drop_in("engines", "quiet", HALVED, "QuietConfig")
    return "quiet"


def test_a_new_engine_is_found_with_fields_of_its_own(quiet):
    first, second = (
        parse({"engine": quiet, "privacy": {"loudness": loudness}})
        for loudness in (0.5, 0.6)
    )
    assert first == parse({"engine": quiet})
    assert first.id != second.id
    with refused(r"did you mean loudness\?"):
        parse({"engine": quiet, "privacy": {"loudnes": 1}})
    with refused(r"^unknown field privacy\.loudness for engine "):
        parse({"privacy": {"loudness": 1}})
    with refused(r"with task=synthesis, got quiet"):
        parse(
            {
                "task": "synthesis",
                "engine": quiet,
                "data": {"name": "smcalflow"},
                "model": {"name": "causal_lm"},
            }
        )


def test_a_new_engine_is_planned_and_held_to_a_budget(quiet, tmp_path):
    space = spaces.parse(
        {
            "name": "s",
            "base": {"data": {"name": "atis"}, "training": {"epochs": 2}},
            "variants": [
                {
                    "name": "mine",
                    "set": {"engine": quiet},
                    "axes": {"privacy.loudness": [1, 2]},
                },
                {
                    "name": "plain",
                    "baseline": True,
                    "set": {"engine": engines.BASELINE},
                },
            ],
            "axes": {"privacy.noise_multiplier": [0.5, 2.0]},
            "budget": {"epsilon": 3.0},
        }
    )
    plan = planning.make(space, account=Accounting(settings_in(tmp_path)))
    assert [trial.values["privacy.noise_multiplier"] for trial in plan.to_run[:2]] == [
        2.0,
        2.0,
    ]
    assert all(trial.epsilon and trial.epsilon <= 3 for trial in plan.to_run[:2])
    assert [trial.refused_by for trial in plan.refused] == ["budget", "budget"]
    assert plan.to_run[2].values == {}, (
        "noise is no part of a baseline, whose points are one"
    )
    two = parse({"engine": quiet, "training": {"num_workers": 2}})
    with refused(r"expected training\.num_workers=1, got 2"):
        build(two, num_records=2_560)


def test_a_new_engine_is_shown(quiet):
    mine = samples.trial("9999", quiet, 0.2, 4.0)
    page = report.html(samples.sweep(trials=(*samples.sweep().trials, mine)))
    assert "Quiet SGD" in page
    assert ".engine-quiet { --c: #123456; }" in page
    assert ".engine-quiet { --c: #abcdef; }" in page
