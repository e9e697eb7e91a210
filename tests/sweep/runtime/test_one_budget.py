"""A sweep has one budget, whatever is done to its folder, to its files and to the
ledger.
"""

import shutil

import pytest

from sweep.planning import ledger_check
from sweep.planning.accounting import Accounting
from sweep.planning.pricing import price
from sweep.results.export import spend_of
from sweep.runtime import runner
from sweep.spending import filter as spending_filter
from sweep.spending.gate import open_gate
from sweep.spending.ledger import FILE, Ledger
from sweep.store import sweeps as store
from sweep.store.sweeps import SweepFolder
from tests.refusals import refused
from tests.sweep import toy_trial
from tests.sweep.logs import rewrite_sweep
from tests.sweep.runtime.test_private_selection import Crash, _crash, _fourth_call
from tests.sweep.sweeps import TOY, ledger_of, prepared_in, settings_in
from tests.sweep.untracked import run_untracked, without_mlflow
from trainables.dp.accounting.certification import certify
from trainables.dp.accounting.composition import RdpFilter
from trainables.errors import InvalidData

_PRIVATE = {
    "variants": [{"name": "dp", "axes": {"privacy.noise_multiplier": [4.0, 8.0]}}],
    "base": {
        "engine": "dp_sgd",
        "privacy": {"delta": 1e-5},
        "training": {"epochs": 3, "expected_batch_size": 30},
    },
}
_SEARCH = {
    **_PRIVATE,
    "variants": [],
    "axes": {
        "privacy.noise_multiplier": {"range": {"low": 4.0, "high": 50.0, "log": True}}
    },
    "search": {"strategy": "tpe", "num_samples": 2, "objectives": ["validation_ser"]},
    "budget": {"total": 8.0},
}


def interrupted(place, **fields):
    """A sweep whose process has died in its second trial, or later in the first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(toy_trial, "_fault", _fourth_call(_crash))
        with pytest.raises(Crash):
            run_untracked(place, **{**_PRIVATE, **fields})
    return store.open_sweep(settings_in(place).home, "toy")


def resume(folder, place):
    with without_mlflow():
        runner.resume(folder, settings_in(place), function=TOY)


def gate_of(folder, place):
    settings = settings_in(place)
    ledger = Ledger(settings.home / FILE)
    priced = price(folder.plan().to_run, Accounting(settings))
    return open_gate(folder, priced, ledger=ledger)


_WAYS = {
    "renamed": lambda old, new: old.rename(new),
    "copied": lambda old, new: shutil.copytree(old, new),
    "linked": lambda old, new: new.symlink_to(old),
}


@pytest.mark.parametrize("way", _WAYS)
def test_a_sweep_in_another_folder_spends_the_same_total(tmp_path, way):
    """Trials are begun again under ever new names until each refuses: all together, one
    total.
    """
    total = 1.6
    folder = run_untracked(tmp_path, **_PRIVATE, budget={"total": total})
    ledger, begun = ledger_of(folder), 0
    (dataset,) = ledger.datasets()
    for number in range(4):
        if number:
            place = folder.path.with_name(f"other{number}")
            _WAYS[way](folder.path, place)
            folder = store.open_sweep(place.parent, place.name)
        for trial in folder.plan().to_run:
            for _ in range(30):
                if (
                    gate_of(folder, tmp_path).begin(trial.id, attempt=1, epochs_done=0)
                    is not None
                ):
                    break
                begun += 1
            else:
                pytest.fail("the total has no end")
    assert begun > 0
    counted = [entry.release for entry in ledger.of_sweep(folder.ledger_name)]
    assert certify(counted, delta=1e-5).epsilon <= total
    spend = ledger.spend(dataset)
    assert spend.total.epsilon <= total
    assert (len(spend.sweeps), spend.num_trials) == (1, 2)
    found, _ = spend_of(folder)
    assert found.epsilon <= total
    assert ledger_check.check(settings_in(tmp_path)) == []


def test_two_copies_do_not_run_at_a_time(tmp_path):
    """Both would charge the same attempts, of which the ledger counts one."""
    folder = run_untracked(tmp_path, **_PRIVATE)
    home = folder.path.parent
    shutil.copytree(folder.path, home / "copy")
    (home / "link").symlink_to(folder.path)
    copy, link = (store.open_sweep(home, name) for name in ("copy", "link"))
    with folder.hold_lock():
        for other, words in ((copy, "a copy of copy"), (link, "is running: ")):
            with refused(words), other.hold_lock():
                pass
    for other in (copy, link, folder):
        with other.hold_lock():
            assert other.is_running


def test_a_copy_and_its_original_continue_one_after_the_other(tmp_path):
    folder = interrupted(tmp_path)
    ledger = ledger_of(folder)
    shutil.copytree(folder.path, folder.path.with_name("copy"))
    resume(folder, tmp_path)
    once = len(ledger.entries())
    resume(store.open_sweep(folder.path.parent, "copy"), tmp_path)
    again = ledger.entries()[once:]
    assert again, "other noise, so other releases"
    known = {(e.trial, e.attempt, e.first_epoch) for e in ledger.entries()[:once]}
    assert not known & {(e.trial, e.attempt, e.first_epoch) for e in again}


@pytest.mark.parametrize("lost", ["moved", "ledger", "older", "half"])
def test_without_its_charges_a_sweep_does_not_go_on(tmp_path, lost):
    """In another home, or beside a lost ledger or an older copy of it (with its head),
    the sweep would spend its budget again; so would a new one under --budget-total.
    """
    folder = interrupted(tmp_path)
    home, ledger = folder.path.parent, ledger_of(folder)
    before = ledger.entries()
    if lost == "moved":
        (home / "kept").mkdir()
        for file in home.glob("ledger.*"):
            shutil.move(file, home / "kept" / file.name)
    else:
        for suffix in ("jsonl", "head"):
            (home / f"ledger.{suffix}").unlink()
        keep = {"ledger": 0, "older": len(before) - 2, "half": 1}[lost]
        for entry in before[:keep]:
            Ledger(home / FILE).charge(entry)
    with refused("expected the ledger to have every epoch of toy"):
        resume(folder, tmp_path)
    new = prepared_in(tmp_path, name="new")
    with without_mlflow(), refused("to have every epoch of toy", InvalidData):
        runner.start(new, settings_in(tmp_path), function=TOY, budget_total=1e9)
    assert store.names(home) == ["toy"]
    assert ledger_check.repair(settings_in(tmp_path)) == []
    resume(folder, tmp_path)
    assert all(record.status.is_finished for record in folder.records())


def edit(folder, change):
    """Change the facts of a sweep in its log, with right digests."""

    def changed(noted):
        if "filter" in noted["facts"]:
            change(noted["facts"])
        return noted

    rewrite_sweep(folder, "noted", changed)


def test_a_filter_is_fixed_with_its_delta_before_the_first_trial(tmp_path, monkeypatch):
    """The smallest of its space: each trial claims its own, and the total holds for all
    of them.
    """
    variants = [
        {"name": str(at), "set": {"privacy.delta": at}} for at in (1e-4, 1e-7, 1e-5)
    ]
    folder = run_untracked(tmp_path, **{**_SEARCH, "variants": variants})
    kept = spending_filter.stored_filter(folder)
    assert (kept.epsilon, kept.delta) == (8.0, 1e-7)
    used = []
    other = RdpFilter.of(8.0, delta=1e-2)
    monkeypatch.setattr("sweep.planning.pricing.filter_of", lambda *_: other)
    monkeypatch.setattr(
        "sweep.runtime.runner.open_gate",
        lambda *args, **named: (
            used.append(named["total_filter"]) or open_gate(*args, **named)
        ),
    )
    resume(folder, tmp_path)
    assert used == [kept]
    total, _ = spend_of(folder)
    assert (total.epsilon, total.delta) == (8.0, 1e-7)


_EDITS = {
    "lost": lambda about: about.pop("filter"),
    "more room": lambda about: about["filter"].update(
        budget=2 * about["filter"]["budget"]
    ),
    "another total": lambda about: about["filter"].update(epsilon=50.0),
    "no numbers": lambda about: about["filter"].update(order="x"),
}


def test_a_filter_that_was_changed_is_refused(tmp_path):
    folder = run_untracked(tmp_path, **_SEARCH)
    logs = [folder.path / f"sweep.{name}" for name in ("jsonl", "head")]
    whole = [path.read_bytes() for path in logs]
    for change in _EDITS.values():
        edit(folder, change)
        with refused(r"^expected .*fixed before the first trial"):
            resume(SweepFolder(folder.path), tmp_path)
        for path, content in zip(logs, whole, strict=True):
            path.write_bytes(content)
    resume(SweepFolder(folder.path), tmp_path)


def test_only_a_baseline_without_noise_is_exempt(tmp_path):
    private = {
        "name": "loud",
        "baseline": True,
        "set": {"privacy.noise_multiplier": 0.5},
    }
    plain = {
        "name": "sgd",
        "baseline": True,
        "set": {"engine": "sgd"},
        "drop_axes": "all",
    }
    fields = {**_PRIVATE, "variants": [plain, private, *_PRIVATE["variants"]]}
    for budget in ({"epsilon": 3.0}, {"total": 3.0}):
        plan = prepared_in(tmp_path, **fields, budget=budget).plan
        refused = {trial.variant: trial.refused_by for trial in plan.trials}
        assert refused == {"sgd": None, "loud": "budget", "dp": None}
