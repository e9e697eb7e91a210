"""Missing entries of the ledger are found by the sweeps' epochs, and added without
removing any.
"""

import json
import math
from contextlib import nullcontext
from dataclasses import replace

import pytest

from sweep.planning import ledger_check
from sweep.planning.prepare import prepare_space
from sweep.spending.ledger import FILE, Ledger
from sweep.spending.paid import require_paid
from sweep.store import sweeps as store
from sweep.store.sweeps import LOG, SweepFolder, Vault
from tests.refusals import refused
from tests.sweep.logs import rewrite_sweep
from tests.sweep.sweeps import settings_in, space_in
from tests.sweep.untracked import run_untracked


@pytest.fixture
def toy(tmp_path):
    return run_untracked(tmp_path)


def lose_ledger(folder):
    for name in (FILE, "ledger.head"):
        (folder.path.parent / name).unlink()


def epsilon_spent(folder):
    book = Ledger(folder.path.parent / FILE)
    return book.spend(book.datasets()[0]).accounted.epsilon


def test_a_ledger_that_is_whole_has_every_epoch(toy, tmp_path):
    assert ledger_check.check(settings_in(tmp_path)) == []


@pytest.mark.parametrize("kept", [0, 4])
def test_lost_entries_are_found_and_charged_again(toy, tmp_path, kept):
    """The ledger is lost, or its end is: the composition is afterwards what it was."""
    path, before = toy.path.parent / FILE, epsilon_spent(toy)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:kept]))
    (found,) = ledger_check.check(settings_in(tmp_path))
    assert f"{len(lines)} lines were written and {kept} are there" in found.problem
    assert ledger_check.repair(settings_in(tmp_path)) == [found]
    lose_ledger(toy)  # as it says
    assert ledger_check.repair(settings_in(tmp_path)) == []
    assert epsilon_spent(toy) == pytest.approx(before)


def test_each_sweep_that_cannot_be_checked_is_named(tmp_path):
    settings = settings_in(tmp_path)
    for name in ("one", "two"):
        (settings.home / name).mkdir(parents=True)
        (settings.home / name / LOG).write_text('{"name": "x"}')
    assert {found.sweep for found in ledger_check.check(settings)} == {"one", "two"}


def test_a_trial_whose_epochs_were_never_charged_is_named(
    toy, tmp_path, monkeypatch, line
):
    lose_ledger(toy)
    monkeypatch.setenv("SWEEP_HOME", str(toy.path.parent))
    monkeypatch.setenv("SWEEP_DATA_DIR", str(tmp_path))
    code, out, _ = line("ledger", "--check", "--json")
    assert code == 1
    answer = json.loads(out)
    trials = {trial.id for trial in toy.plan().to_run}
    assert {row["trial"] for row in answer["missing"]} == trials
    assert {tuple(row["epochs"]) for row in answer["missing"]} == {(1, 2, 3)}
    assert answer["left"] == answer["missing"]
    assert line.says("ledger", "--check", "--repair").count("(repaired)") == len(trials)
    assert "every epoch of every sweep" in line.says("ledger", "--check")
    line.refused("ledger", "--repair")


@pytest.mark.parametrize(
    ("engine", "epsilon", "num_found"),
    [("dp_sgd", 0.0, 1), ("untrained", 0.0, 0), ("untrained", math.inf, 1)],
)
def test_only_a_trial_without_private_records_needs_no_entry(
    toy, tmp_path, engine, epsilon, num_found
):
    """A planned epsilon of 0 alone proves nothing: very much noise rounds to it. What
    such a trial itself has read has no finite epsilon.
    """
    lose_ledger(toy)
    plan = toy.plan()
    last = plan.trials[-1]
    changed = replace(last, epsilon=epsilon, origin={**last.fields, "engine": engine})
    toy.replace_plan(toy.space(), replace(plan, trials=(changed,)))
    found = ledger_check.check(settings_in(tmp_path))
    assert [finding.epochs for finding in found] == num_found * [(1, 2, 3)]
    with refused("got none for some of trial") if num_found else nullcontext():
        require_paid(toy, Ledger(toy.path.parent / FILE))


@pytest.mark.parametrize("known", ["started", "epoch", "ended"])
def test_every_attempt_pays_for_its_own_epochs(toy, tmp_path, known):
    """What was trained is known by the last epoch or by the result; gaps are charged
    one by one.
    """
    if known != "started":
        rewrite_sweep(toy, {"epoch": "ended", "ended": "epoch"}[known], lambda _: None)
    ledger = Ledger(toy.path.parent / FILE)
    whole = ledger.entries()
    lose_ledger(toy)
    ledger, settings = Ledger(toy.path.parent / FILE), settings_in(tmp_path)
    for entry in whole:
        ledger.charge(replace(entry, attempt=1, first_epoch=1, epochs=2))
    found = ledger_check.check(settings)
    assert [finding.epochs for finding in found] == [(1, 3)] * len(toy.plan().trials)
    assert ledger_check.repair(settings) == []
    added = [
        (e.attempt, e.first_epoch, e.epochs) for e in ledger.entries()[len(whole) :]
    ]
    assert added == [(2, 0, 1), (2, 2, 3)] * len(toy.plan().trials)


def test_a_result_with_more_epochs_than_any_trial_is_damage(toy, tmp_path):
    """One line, and no list of its epochs, which would not fit into memory."""
    rewrite_sweep(
        toy, "ended", lambda e: {**e, "result": {**e["result"], "epochs_done": 10**12}}
    )
    (found,) = ledger_check.check(settings_in(tmp_path))
    assert "epochs_done" in found.problem
    assert found.epochs == ()


@pytest.mark.parametrize("state", ["planned", "sealed", "begun", "over", "unsealed"])
def test_a_selection_owes_its_entry_from_its_first_trial_on(
    tmp_path, monkeypatch, state
):
    """Until it is unsealed, when each trial owes its own."""
    settings = settings_in(tmp_path)
    space = space_in(
        tmp_path,
        variants=[],
        base={"engine": "dp_sgd"},
        axes={"privacy.noise_multiplier": [4.0, 5.0]},
        search={
            "strategy": "private_selection",
            "num_trials": {"law": "geometric", "mean": 2},
        },
    )
    prepared = prepare_space(space, settings=settings)
    about = {"command": [], "git_commit": None}
    vault = Vault(
        store.create(settings.home, prepared.space, prepared.plan, about=about)
    )
    if state != "planned":
        vault.seal(prepared.space, prepared.plan)
    if state in ("begun", "unsealed"):
        vault.draws.start_trial(prepared.plan.trials[0])
    elif state == "over":
        vault.select(trial=None, draw=None)
    monkeypatch.setattr(SweepFolder, "is_unsealed", state == "unsealed")
    problems = [found.problem for found in ledger_check.check(settings)]
    owes = state in ("begun", "over")
    assert problems == ["its selection has no entry"] * owes
    assert ledger_check.repair(settings) == []
    found = Ledger(settings.home / FILE).entries()
    assert [(entry.release, entry.delta) for entry in found] == [
        (prepared.price.release, prepared.price.delta)
    ] * owes
