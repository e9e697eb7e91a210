"""What an export says that the whole sweep has spent, from the ledger's entries."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from sweep.results import export
from sweep.results.export import spend_of
from sweep.spending.ledger import FILE, Ledger, entry_for
from tests.sweep.sweeps import space_in
from trainables.config.mechanism import build_from
from trainables.config.trial import PrivacyConfig, TrainingConfig
from trainables.dp.accounting.certification import certify


def entry(trial, *, noise=4.0, delta=1e-5, **other):
    mechanism = build_from(
        "dp_sgd",
        PrivacyConfig(noise_multiplier=noise, delta=delta),
        training=TrainingConfig(epochs=4),
        num_records=2_560,
    )
    given = {"dataset": "aaa", "sweep": "s", "epochs": 4, **other}
    return entry_for(mechanism, trial=trial, **given)


def trial(name, **fields):
    return SimpleNamespace(
        id=name,
        is_exempt=name == "sgd",
        runs=True,
        fields=fields,
        epsilon=1.0,
        engine="dp_sgd",
    )


def folder_of(trials, place, **about):
    plan = SimpleNamespace(trials=trials)
    ended = SimpleNamespace(epochs_done=0, result=None, most_charged=5)
    state = SimpleNamespace(trial=lambda name: ended)
    return SimpleNamespace(
        path=place / "s", name="s", about=dict, plan=lambda: plan, state=lambda: state,
        space=lambda: space_in(place), **{"is_unsealed": False, "ledger_name": "s", **about},
    )  # fmt: skip


@pytest.mark.parametrize("unsealed", [False, True])
def test_the_total_is_that_of_every_attempt_of_the_sweeps_own_trials(
    tmp_path, monkeypatch, unsealed
):
    """The furthest entry of each, at the smallest delta; a baseline is named beside
    it.
    """
    mine = [
        entry("a", noise=3.0),
        entry("b"),
        entry("a", attempt=2, delta=1e-6),
        entry("c", noise=5),
    ]
    ledger = Ledger(tmp_path / FILE)
    others = [
        entry("sgd", noise=0.1),
        entry("x", sweep="other"),
        entry("a", epochs=2, noise=3.0),
    ]
    for each in [*others, *mine][:: -1 if unsealed else 1]:
        ledger.charge(each)
    trials = [trial(name) for name in ("sgd", "a", "b", "c")]
    folder = folder_of(trials, tmp_path, is_unsealed=unsealed)
    total, refused = spend_of(folder)
    together = certify([each.release for each in mine], delta=1e-6, effort="total")
    assert (total.epsilon, total.delta) == (together.epsilon, 1e-6)
    assert total.num_releases == 3  # trials, of which one was interrupted
    [baseline] = total.unaccounted
    assert baseline.startswith("1 baseline of the sweep")
    assert ("unsealed" in refused) == unsealed
    own = replace(total, unaccounted=("an entry without a guarantee",))
    monkeypatch.setattr(export, "total_of", lambda *_, **__: own)
    assert spend_of(folder)[0].unaccounted == (*own.unaccounted, baseline)
    trials.clear()
    assert spend_of(folder_of(trials, tmp_path, ledger_name="none"))[0] is None


_MINE = {"name": "mine", "path": "a", "split": "hash"}


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"data": _MINE}, ""),
        ({"data": {**_MINE, "name": "yours", "split": "bernoulli"}}, ""),
        ({"data": {**_MINE, "path": "b", "split": "bernoulli"}}, ""),
        (
            {"data": {**_MINE, "split": "bernoulli"}},
            "validation and test records, which",
        ),
        ({"data": {**_MINE, "max_records": 9}}, "validation and test records, which"),
        (
            {"data": _MINE, "synthesis": {"public_fraction": 0.5}},
            "test and public records, which",
        ),
    ],
)
@pytest.mark.parametrize("runs", [True, False])
def test_the_total_says_which_records_it_is_not_about(tmp_path, other, said, runs):
    """Of one corpus, records that one trial is tested on may train another."""
    Ledger(tmp_path / FILE).charge(entry("b"))
    trials = [trial("a", data=_MINE), trial("b", **other)]
    trials[1].runs = runs
    total, _ = spend_of(folder_of(trials, tmp_path))
    assert len(total.unaccounted) == bool(said and runs)
    assert all(said in line for line in total.unaccounted)
