"""Cached privacy figures: equal to computed ones, never those of another trial."""

import math
from dataclasses import fields, make_dataclass, replace
from functools import partial
from importlib import metadata
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from sweep.planning import accounting as planning
from sweep.planning.accounting import Accounting
from tests.refusals import refused
from trainables import figure_cache
from trainables.config.mechanism import build
from trainables.config.trial import parse
from trainables.dp.accounting import choose, values
from trainables.dp.accounting.summary import PrivacySummary
from trainables.dp.schedules import linear
from trainables.figure_cache import FigureCache, key_of, kind_of

SUMMARY = PrivacySummary(
    epsilon=math.inf,
    delta=1e-5,
    accountant="pld",
    tight=False,
    epsilon_paper=None,
    epsilon_rdp=1 / 3,
    epsilon_replace_one=2.0,
    noise_multiplier=0.1,
    effective_noise_multiplier=(0.1, 0.05),
    neighboring_relation="add_or_remove_one",
    gaussian_mu=math.inf,
    max_tpr_1pct=1.0,
    max_tpr_01pct=1.0,
    max_advantage=1.0,
    unaccounted=("why",),
    warnings=(),
)


def _config(**privacy):
    """A config whose data set has a declared size, so that nothing is opened."""
    training = {"num_workers": 1, "expected_batch_size": 64, "epochs": 2}
    return parse({"engine": "dp_sgd", "privacy": privacy, "training": training})


def planned(cache, mechanism, accountant=None):
    """The figures of a mechanism for a plan, by way of a cache."""
    return cache.summary(
        key_of(mechanism, accountant=accountant),
        lambda: choose.account(mechanism, exact=False, accountant=accountant),
    )


def never(*_, **__):
    raise AssertionError("worked out twice")


def test_figures_come_back_as_they_were(tmp_path):
    FigureCache(tmp_path / "new").summary("key", lambda: SUMMARY)
    assert FigureCache(tmp_path / "new").summary("key", never) == SUMMARY
    assert FigureCache(tmp_path / "new").find("another") is None
    assert (tmp_path / "new" / "figures.jsonl").stat().st_mode & 0o077 == 0


def test_a_damaged_file_is_worked_out_again(tmp_path):
    cache = FigureCache(tmp_path)
    cache.keep("first", 1.0)
    cache.keep("second", 2.0)
    file = tmp_path / "figures.jsonl"
    file.write_bytes(file.read_bytes()[:-4] + b"\xff")
    found = FigureCache(tmp_path)
    assert found.find("first") == 1.0
    assert found.find("second") is None


def test_a_file_that_is_too_long_is_started_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(figure_cache, "_MOST_BYTES", 60)
    for number in range(4):
        FigureCache(tmp_path).keep(f"key {number}", number)
    kept = [FigureCache(tmp_path).find(f"key {number}") for number in range(4)]
    assert kept == [None, None, None, 3], "two lines fit, the third is too many"


def test_a_folder_that_cannot_be_written_to_keeps_nothing(tmp_path):
    (tmp_path / "file").touch()
    FigureCache(tmp_path / "file" / "cache").keep("key", 1.0)


def test_a_second_plan_asks_no_accountant(settings, monkeypatch):
    config = _config(noise_multiplier={"target_epsilon": 8})
    first = Accounting(settings)(config)
    assert first.summary.epsilon <= 8 < first.summary.epsilon * 1.01
    assert first.mechanism.noise_multiplier == first.summary.noise_multiplier
    monkeypatch.setattr(planning, "resolve", never)
    for name in ("account", "epsilon_after"):
        monkeypatch.setattr(choose, name, never)
    assert Accounting(settings)(config) == first


def test_whatever_changes_a_figure_changes_its_key():
    mechanism = build(_config(noise_multiplier=1.0), num_records=640)
    asked = {"target_epsilon": None, "accountant": None}
    keys = {
        key_of(mechanism, **asked),
        key_of(mechanism, mechanism, **asked),
        key_of(mechanism, **{**asked, "target_epsilon": 8.0}),
        key_of(mechanism, **{**asked, "accountant": "rdp"}),
        *(
            key_of(replace(mechanism, **{name: value}), **asked)
            for name, value in {
                "num_records": mechanism.num_records + 1,
                "epochs": 3,
                "delta": 1e-6,
                "noise_multiplier": 1.5,
                "undeclared": ("lengths",),
                "unit": "group",
                "histogram_noise_multiplier": 3.0,
                "reproducible_noise": True,
                "engine": "edp_sgd",
            }.items()
        ),
    }
    assert len(keys) == 13
    paper = [
        {
            "noise_calibration": "paper",
            "epochs": 1,
            "num_workers": n,
            "num_microbatches": n,
        }
        for n in (1, 4)
    ]
    own, hidden = {"engine": "edp_sgd"}, {"undeclared": ("lengths",), "epochs": 2}
    for alike in (
        # the same noise on the sum
        [
            each | own | {"noise_decay": (d,)}
            for each, d in zip(paper, (0.5, 1.0), strict=True)
        ],
        [
            each | {"noise_multiplier": z}
            for each, z in zip(paper, (0.5, 1.0), strict=True)
        ],
        # no release has their noise
        [
            hidden | {"noise_decay": decay}
            for decay in ((1.0, 1.0), (0.5, 1.0), (1.0, 0.5))
        ],
        # the same release, and a delta that is too large for more records
        [
            {"delta": 1e-3, "num_records": 10 * b, "expected_batch_size": b}
            for b in (64, 640)
        ],
    ):
        assert len({key_of(replace(mechanism, **each)) for each in alike}) == len(alike)
    for name, value in {
        "max_grad_norm": 7.0,
        "group_scale": "first_step_noised",
    }.items():
        assert key_of(replace(mechanism, **{name: value}), **asked) in keys, (
            "no figure reads it"
        )


def test_accountants_are_distinguished_by_name(monkeypatch):
    """Also where their texts cannot be read, or are the same."""
    monkeypatch.setattr(figure_cache, "_text_of", lambda name: "the same")
    built = build(_config(noise_multiplier=1.0), num_records=640)
    assert len({key_of(built, accountant=name) for name in (None, "rdp", "pld")}) == 3


def test_stages_and_accountants_have_keys_of_their_own(tmp_path):
    """An epoch of each of two models is rounded up to whole steps by itself; a figure
    of one accountant is not another's.
    """
    built = build(_config(noise_multiplier=1.0), num_records=640)
    whole = replace(built, num_records=973, epochs=2)  # 30.4 steps
    staged = replace(whole, stages=(1, 1))  # twice 15.2
    assert (whole.steps, staged.steps) == (31, 32)
    cache = FigureCache(tmp_path)
    figures = {
        (name, accountant): planned(cache, mechanism, accountant).epsilon
        for name, mechanism in (("whole", whole), ("staged", staged))
        for accountant in (None, "rdp", "gaussian")
    }
    again = FigureCache(tmp_path)
    for (name, accountant), epsilon in figures.items():
        mechanism = whole if name == "whole" else staged
        assert planned(again, mechanism, accountant).epsilon == epsilon
        fresh = choose.account(mechanism, exact=False, accountant=accountant)
        assert fresh.epsilon == epsilon
    assert len(set(figures.values())) == len(figures)


def test_an_edited_decay_is_accounted_anew(tmp_path, monkeypatch):
    """The key had the schedule's name and not what it says: 142.9 was shown where 1,623
    held.
    """
    config = parse(
        {
            "engine": "edp_sgd",
            "data": {"num_records": 640},
            "privacy": {
                "noise_multiplier": {"target_epsilon": 50},
                "noise_decay": {"kind": "linear", "tau": 0.1},
            },
            "training": {"num_workers": 1, "expected_batch_size": 64, "epochs": 6},
        }
    )
    before, mechanism = FigureCache(tmp_path).resolve(config, num_records=640)
    figure = planned(FigureCache(tmp_path), mechanism)
    monkeypatch.setattr(
        linear, "factor", lambda epoch, *, tau: 1 / (1 + tau * epoch) ** 3
    )
    after, changed = FigureCache(tmp_path).resolve(config, num_records=640)
    assert after.privacy.noise_multiplier > before.privacy.noise_multiplier
    kept = replace(changed, noise_multiplier=mechanism.noise_multiplier)
    edited = planned(FigureCache(tmp_path), kept)
    assert edited == choose.account(kept, exact=False)
    assert edited.epsilon > 1.5 * figure.epsilon


def test_an_edited_accountant_is_run_again(monkeypatch):
    built = build(_config(), num_records=640)
    keys = {key_of(built, accountant="rdp"), key_of(built)}
    edited = SimpleNamespace(origin=__file__)
    names = [field.name for field in fields(PrivacySummary)]
    others = [
        make_dataclass("_", each) for each in (["a", *names[1:]], [*names[:-1], "a"])
    ]
    for change in (
        *(
            partial(monkeypatch.setattr, figure_cache, "PrivacySummary", each)
            for each in others
        ),
        lambda: monkeypatch.setattr(figure_cache, "find_spec", lambda _: edited),
        lambda: monkeypatch.setattr(values, "VERSION", -1),
        lambda: monkeypatch.setattr(metadata, "version", lambda _: "0.0"),
    ):
        change()
        figure_cache._text_of.cache_clear()
        figure_cache._versions.cache_clear()
        keys.add(key_of(built, accountant="rdp"))
    assert len(keys) == 7
    figure_cache._text_of.cache_clear()
    figure_cache._versions.cache_clear()


def test_what_is_undeclared_is_not_forgotten_by_a_noise_that_is_kept(tmp_path):
    """A target that was reached on declared data is no claim about what else is
    released.
    """
    cache = FigureCache(tmp_path)
    wanted = _config(noise_multiplier={"target_epsilon": 8.0})
    _, declared = cache.resolve(wanted, num_records=2_560)
    assert declared.undeclared == ()
    with refused("no noise multiplier reaches target_epsilon=8"):
        FigureCache(tmp_path).resolve(
            wanted, num_records=2_560, undeclared=("a vocabulary",)
        )


@pytest.mark.parametrize(
    "line",
    ["3", "[1]", '{"key": 1}', "{", "null", pytest.param("[" * 100_000, id="deep")],
)
def test_a_line_that_is_no_figure_is_passed_over(tmp_path, line):
    FigureCache(tmp_path).keep("key", 1.5)
    file = tmp_path / "figures.jsonl"
    file.write_text(f"{line}\n{file.read_text()}")
    assert FigureCache(tmp_path).find("key") == 1.5


@pytest.mark.parametrize("bad", [-1e-9, math.nan])
@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_a_kept_figure_below_0_is_no_figure(name, bad):
    """Whichever of them it is."""
    document = make_dataclass("Document", [(each, float) for each in "abc"])
    figures = {"a": 1.0, "b": 0.0, "c": math.inf}
    assert kind_of(document).validate_python(figures) == document(**figures)
    with pytest.raises(ValidationError, match="figures >= 0"):
        kind_of(document).validate_python(figures | {name: bad})
