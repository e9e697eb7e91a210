"""A private selection from its start to its export: charges, released and sealed
trials.
"""

import io
import json
import re
import shutil
import struct
from dataclasses import replace

import pytest
from rich.console import Console

from sweep import cli
from sweep.planning import ledger_check
from sweep.progress_display import view_of, watching
from sweep.results import selected_trial
from sweep.results.export import card_of, spend_of
from sweep.runtime import runner, selection, worker_loop
from sweep.runtime.events import RayFailed
from sweep.search import private_selection as search
from sweep.spending.ledger import FILE, SELECTION, Ledger
from sweep.store import sweeps as store
from sweep.store.sweeps import LOG, SweepFolder, Vault
from tests.libraries import IGNORED
from tests.refusals import refused
from tests.sweep import toy_trial
from tests.sweep.logs import entries, rewrite, rewrite_sweep
from tests.sweep.sweeps import (
    TOY,
    ledger_of,
    make_store,
    prepared_in,
    run_toy,
    settings_in,
    shared_figures,
)
from tests.sweep.untracked import run_untracked, without_mlflow
from trainables.cards.page import to_markdown
from trainables.config.mechanism import with_noise
from trainables.dp.accounting.certification import certify
from trainables.dp.accounting.privacy_semantics import nearest_gaussian_mu
from trainables.dp.accounting.releases import Number
from trainables.errors import InvalidData, InvalidInput, SweepError, TrialFailed

pytestmark = IGNORED
_NUMBER = 3
_ID = "0123456789abcdef0123456789abcdef"


def _fields(**fields):
    """Two clip norms and a range of learning rates, which is what the toy's error grows
    with.
    """
    return {
        "variants": [],
        "base": {
            "engine": "dp_sgd",
            "training": {"epochs": 2, "expected_batch_size": 30},
        },
        "axes": {
            "privacy.max_grad_norm": [0.5, 1.0],
            "training.learning_rate": {"range": {"low": 1e-3, "high": 1e-2}},
        },
        "search": {
            "strategy": "private_selection",
            "num_trials": {"law": "geometric", "mean": 4},
        },
        **fields,
    }


@pytest.fixture(autouse=True)
def three(monkeypatch):
    draw(monkeypatch, _NUMBER)
    # The toy leaves nothing to collect, which would take half of each test.
    monkeypatch.setattr(worker_loop.gc, "collect", lambda: 0)


def draw(patch, number):
    patch.setattr(search, "draw_number", lambda law, random: number)


class Place:
    def __init__(self, path):
        self.path = path
        self.settings = settings_in(path)
        self.ledger = Ledger(self.settings.home / FILE)

    @property
    def folder(self):
        return store.open_sweep(self.settings.home, "toy")

    def prepare(self, **fields):
        return prepared_in(self.path, **_fields(**fields))

    def run(self, **fields):
        return run_untracked(self.path, **_fields(**fields))

    def start(self, prepared, **options):
        with without_mlflow():
            return runner.start(prepared, self.settings, function=TOY, **options)

    def resume(self, name="toy"):
        with without_mlflow():
            sweep = store.open_sweep(self.settings.home, name)
            runner.resume(sweep, self.settings, function=TOY)

    def unseal(self):
        """Without MLflow."""
        selection.unseal(self.folder, replace(self.settings, tracking=False))

    def names(self):
        return store.names(self.settings.home)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A selection among three, delivered to a real tracking store; what it printed is
    in a file.
    """
    place = Place(tmp_path_factory.mktemp("done"))
    settings, screen = place.settings, Console(file=io.StringIO(), width=140)
    make_store(settings)
    with pytest.MonkeyPatch.context() as patch, shared_figures(settings):
        draw(patch, _NUMBER)
        prepared = place.prepare()
        view = view_of(prepared.space, prepared.plan, settings.home)
        with watching(view, screen, quiet=False) as watch:
            run = runner.start(
                prepared, settings, command=["test"], function=TOY, watch=watch
            )
        assert run.tracking_problem is None
    (place.path / "printed.txt").write_text(screen.file.getvalue())
    return run.folder


def _losers(folder):
    """Figures and settings of the trials that did not leave."""
    (best,) = folder.records()
    found = []
    for record in Vault(folder).draws.records():
        if record.metrics["ser"] != best.metrics["ser"]:
            found += [record.plan.config.training.learning_rate, record.metrics["ser"]]
    assert len(found) == 2 * (_NUMBER - 1)
    return found


def _shows(data, value):
    """Whether bytes hold a number: as text, or as a database keeps it."""
    return repr(value).encode() in data or struct.pack(">d", value) in data


def test_the_best_by_validation_leaves_alone(done):
    (record,) = done.records()
    draws = Vault(done).draws.records()
    assert len(draws) == _NUMBER
    assert len({draw.plan.config.training.learning_rate for draw in draws}) == _NUMBER
    errors = [draw.metrics["validation_ser"] for draw in draws]
    assert record.metrics["validation_ser"] == min(
        error for error in errors if error is not None
    )


def test_the_ledger_is_charged_once_with_the_selection(done):
    (entry,) = ledger_of(done).entries()
    assert (entry.trial, entry.sweep) == (SELECTION, done.ledger_name)
    assert entry.release.number == Number(law="geometric", mean=4)
    total, _ = spend_of(done)
    (record,) = done.records()
    assert total.epsilon == record.metrics["epsilon"] == record.plan.epsilon
    assert total.num_releases == 1
    assert (
        certify(entry.release.configurations, delta=entry.delta).epsilon < total.epsilon
    )


def test_no_file_outside_of_the_vault_reveals_another_trial(done):
    home, losers, (best,) = done.path.parent, _losers(done), done.records()
    error = best.metrics["ser"]
    assert error is not None
    files = [
        p for p in home.parent.rglob("*") if p.is_file() and "vault" not in p.parts
    ]
    assert {"mlflow.db", "ledger.jsonl", "printed.txt"} <= {p.name for p in files}
    seen = {path: path.read_bytes() for path in files}
    for path, data in seen.items():
        assert b"draw-" not in data, path
        assert not any(_shows(data, value) for value in losers), path
    for file in (home / "mlflow.db", done.path / LOG):
        assert _shows(seen[file], error), "the search finds what is there"


def test_output_while_it_runs_reveals_no_result_and_no_number(done):
    printed = (done.path.parent.parent / "printed.txt").read_text()
    assert "the best of a secret number of trials" in printed
    assert (
        len([line for line in printed.splitlines() if not line.endswith(" ...")]) == 1
    )
    assert "1 of 1 done" in printed


def test_no_command_shows_or_exports_another_trial(done, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("SWEEP_HOME", str(done.path.parent))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for command in (
        *(
            ["show", "toy"],
            ["show", "toy", "--json"],
            ["list", "--json"],
            ["ledger", "--json"],
        ),
        ["export", "toy", "--to", str(tmp_path / "export")],
        ["report", "toy", "--output", str(tmp_path / "report")],
        ["compare", "toy", "toy"],
    ):
        assert cli.run(command) == 0, (command, capfd.readouterr())
    assert cli.run(["export", "toy", "--trial", "draw-0"]) == 2
    out, err = capfd.readouterr()
    assert (
        "expected the name or the id of a trial of toy, got 'draw-0': 0 trials" in err
    )
    files = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    for value in _losers(done):
        assert not _shows((out + err).encode() + files, value)
    assert "epsilon_selected" in out


def test_the_exported_card_has_the_selections_epsilon(done):
    (record,) = done.records()
    price = done.about()["selection"]
    assert price["epsilon_selected"] == record.metrics["epsilon"]
    assert (price["law"], price["mean"]) == ("geometric", 4)
    card = card_of(done, record)
    assert (card.epsilon, card.accountant) == (price["epsilon_selected"], "selection")
    assert card.epsilon_one_trial == pytest.approx(price["epsilon_one_trial"])
    assert card.gaussian_mu == nearest_gaussian_mu(card.epsilon, delta=price["delta"])
    assert f"{price['law']} law, mean 4" in to_markdown(card)
    assert card.max_tpr_1pct == price["max_tpr_1pct"]
    assert card.selection.epsilon_selected == price["epsilon_selected"]
    assert card.sweep_total.num_releases == 1


def test_epochs_of_the_best_say_nothing_of_what_one_trial_had_spent(done):
    (record,) = done.records()
    rows = done.epochs(record.plan.id)
    assert [row["epochs_done"] for row in rows] == [1, 2]
    assert all("validation_ser" in row["metrics"] for row in rows)
    assert not any(
        name.startswith("epsilon") for row in rows for name in row["metrics"]
    )


class Crash(BaseException):
    """The process is gone."""


def _crash(*args, **kwargs):
    raise Crash


def _after(call):
    def made(*args, **kwargs):
        call(*args, **kwargs)
        raise Crash

    return made


_STEPS = {
    "before the draws": lambda patch: patch.setattr(Vault, "seal", _crash),
    "between draws and charge": lambda patch: patch.setattr(
        Vault, "seal", _after(Vault.seal)
    ),
    "before the charge": lambda patch: patch.setattr(Ledger, "charge", _crash),
    "after the charge": lambda patch: patch.setattr(
        Ledger, "charge", _after(Ledger.charge)
    ),
    "in a trial": lambda patch: patch.setattr(
        toy_trial, "_fault", _fourth_call(_crash)
    ),
    "before the best leaves": lambda patch: patch.setattr(
        selection, "release_best", _crash
    ),
    "while the best leaves": lambda patch: patch.setattr(
        selected_trial, "_of_the_release", _crash
    ),
    "before it is noted": lambda patch: patch.setattr(Vault, "select", _crash),
}


def _fourth_call(call):
    calls = iter(range(1_000))
    return lambda *args: call() if next(calls) == 3 else None


def _same_secrets(place, patch):
    """One home key and one sweep id, so that two homes draw the same."""
    key = place.settings.home / "ledger.key"
    key.parent.mkdir(parents=True)
    key.touch(mode=0o600)
    key.write_bytes(b"k" * 32)
    patch.setattr(store.uuid, "uuid4", lambda: type("", (), {"hex": _ID}))


def _outcome(folder):
    (record,) = folder.records()
    drawn = [
        (t.id.rpartition("-")[0], t.values) for t in Vault(folder).draws.plan().trials
    ]
    entries = [(e.trial, e.release) for e in ledger_of(folder).entries()]
    figures = {name: record.metrics[name] for name in ("ser", "epsilon")}
    return record.plan.values, figures, drawn, entries


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("whole"))
    with pytest.MonkeyPatch.context() as patch:
        _same_secrets(place, patch)
        draw(patch, _NUMBER)
        return _outcome(place.run())


@pytest.mark.parametrize("step", _STEPS)
def test_after_a_crash_the_same_trials_give_the_same_best_at_one_price(
    place, monkeypatch, uninterrupted, step
):
    _same_secrets(place, monkeypatch)
    with pytest.MonkeyPatch.context() as patch:
        _STEPS[step](patch)
        with pytest.raises(Crash):
            place.run()
    for _ in range(2):
        place.resume()
        assert _outcome(place.folder) == uninterrupted


def test_a_ray_that_fails_names_the_sweep_and_not_its_vault(place, monkeypatch):
    def fail(jobs, **_):
        if jobs:
            raise RayFailed("Ray failed (its gcs_server died)")

    monkeypatch.setattr("sweep.runtime.driver.run_trials", fail)
    with pytest.raises(SweepError) as problem:
        place.run()
    assert str(problem.value) == (
        "Ray failed (its gcs_server died); finished epochs are saved: `sweep resume"
        " toy` continues"
    )


def breaking(error, *, of):
    """A fault of the toy that is raised in the draws of these numbers, from 0, and who
    has run.
    """
    seen = []

    def fault(folder, rank, epoch):
        if folder.name not in seen:
            seen.append(folder.name)
        if seen.index(folder.name) in of:
            raise error

    return fault, seen


def test_where_the_machine_fails_a_draw_nothing_leaves_until_it_is_run_again(
    place, monkeypatch
):
    fault, seen = breaking(MemoryError(toy_trial.PRIVATE), of=[_NUMBER - 1])
    with monkeypatch.context() as patch:
        patch.setattr(toy_trial, "_fault", fault)
        with refused("a draw failed, so nothing is released", TrialFailed) as failure:
            place.run()
    assert toy_trial.PRIVATE not in str(failure.value)
    assert "MemoryError" not in str(failure.value), (
        "what went wrong is an outcome of that trial"
    )
    assert not set(seen) & set(re.findall(r"[\w-]+", str(failure.value)))
    assert place.folder.records() == []
    place.resume()
    assert (len(place.folder.records()), len(place.ledger.entries())) == (1, 1)


_OWN_FAILURES = [
    ValueError(f"bad utterance: {toy_trial.PRIVATE}"),
    TrialFailed("expected finite weights, got others"),
    InvalidInput("expected the same words in any order"),
]


@pytest.mark.parametrize("error", _OWN_FAILURES, ids=lambda error: type(error).__name__)
def test_a_draw_that_fails_by_itself_is_the_worst_and_is_not_drawn_again(
    place, monkeypatch, error
):
    """Chosen among those that succeed, the best would cost more than its price."""
    fault, seen = breaking(error, of=[0])
    monkeypatch.setattr(toy_trial, "_fault", fault)
    (best,) = place.run().records()
    draws = Vault(place.folder).draws.records(running=False)
    (lost,) = [draw for draw in draws if draw.status == "failed"]
    left = [draw.metrics["validation_ser"] for draw in draws if draw is not lost]
    assert best.metrics["validation_ser"] == min(left)
    place.resume()
    assert len(seen) == _NUMBER
    shown = place.path / "home" / "toy"
    public = b"".join(
        p.read_bytes()
        for p in shown.rglob("*")
        if "vault" not in p.parts and p.is_file()
    )
    assert lost.plan.id.encode() not in public
    assert lost.reason.encode() not in public
    place.unseal()
    assert sorted(record.status for record in place.folder.records()) == [
        "done",
        "done",
        "failed",
    ]
    assert ledger_check.check(place.settings) == []


def test_where_every_draw_fails_by_itself_nothing_leaves(place, monkeypatch, line):
    fault, seen = breaking(ValueError(), of=range(_NUMBER))
    monkeypatch.setattr(toy_trial, "_fault", fault)
    assert place.run().records() == []
    place.resume()
    assert (len(seen), len(place.ledger.entries())) == (_NUMBER, 1)
    monkeypatch.setenv("SWEEP_HOME", str(place.settings.home))
    assert "No trial that was drawn has a result" in line.says("show", "toy")
    place.unseal()
    assert [record.status for record in place.folder.records()] == _NUMBER * ["failed"]


def test_where_no_trial_is_drawn_nothing_leaves_and_the_price_is_paid(
    place, monkeypatch, line
):
    draw(monkeypatch, 0)
    law = {"strategy": "private_selection", "num_trials": {"law": "poisson", "mean": 2}}
    assert place.run(search=law).records() == []
    assert len(place.ledger.entries()) == 1
    monkeypatch.setenv("SWEEP_HOME", str(place.settings.home))
    assert "No trial was drawn, which a poisson law allows" in line.says("show", "toy")


def test_a_configuration_that_is_drawn_twice_is_two_trials(place):
    axes = {"privacy.max_grad_norm": [0.5, 1.0]}
    law = {
        "strategy": "private_selection",
        "num_trials": {"law": "geometric", "mean": 2},
    }
    folder = place.run(axes=axes, search=law)
    draws = Vault(folder).draws.records()
    assert len(draws) == _NUMBER
    assert len({draw.plan.group for draw in draws}) < _NUMBER
    assert ([d.status for d in draws], len(folder.records())) == (["done"] * _NUMBER, 1)


def test_a_total_over_all_sweeps_is_checked_before_the_start(place):
    prepared = place.prepare()
    room = 1.5 * prepared.price.epsilon_selected
    place.start(prepared, budget_total=room)
    with refused("exceeds --budget-total"):
        place.start(place.prepare(name="other"), budget_total=room)
    assert (place.names(), len(place.ledger.entries())) == (["toy"], 1)


def test_a_drawn_trial_that_was_not_priced_is_refused_before_anything_starts(
    place, monkeypatch
):
    drawn = search.draw_points

    def draw_with_less_noise(*given):
        found = drawn(*given)
        first = found[0].config
        assert first is not None
        return [replace(found[0], config=with_noise(first, 0.1)), *found[1:]]

    monkeypatch.setattr(search, "draw_points", draw_with_less_noise)
    with refused("the same epsilon for every point"):
        place.start(place.prepare())
    assert (place.ledger.entries(), place.names()) == ([], [])


def test_unsealing_says_yes_and_charges_the_composition(place, monkeypatch, line):
    number = 20  # so many that they cost more than the choice
    draw(monkeypatch, number)
    make_store(place.settings)
    folder, ledger = run_toy(place.path, **_fields()).folder, place.ledger
    monkeypatch.setenv("SWEEP_HOME", str(place.settings.home))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert "expected --yes" in line.refused("unseal", "toy")
    assert len(folder.records()) == 1

    before = ledger.entries()
    errors = sorted(r.metrics["ser"] or 0.0 for r in Vault(folder).draws.records())
    assert f"{number} trials together cost epsilon" in line.says(
        "unseal", "toy", "--yes"
    )
    assert sorted(r.metrics["ser"] or 0.0 for r in folder.records()) == errors
    assert "was unsealed" in line.says("show", "toy")
    assert not Vault(folder).path.exists()

    assert ledger.entries()[: len(before)] == before  # no entry is ever lost
    (one,) = {
        e.release for e in ledger.entries() if e.trial != SELECTION and e.epochs == 2
    }
    spent = ledger.spend(before[0].dataset)
    expected = certify([one] * number, delta=before[0].delta)
    assert spent.total.epsilon == pytest.approx(expected.epsilon, rel=1e-12)
    assert spent.num_trials == number

    assert "unsealed already" in line.refused("unseal", "toy", "--yes")
    line.says("resume", "toy")
    assert len(folder.records()) == number
    assert len(ledger.entries()) == len(before) + number + 1
    line.says("ledger", "--check")
    _remove(place.settings.home, "jsonl", "head")  # it is checked like any other sweep
    code, out, _ = line("ledger", "--check", "--json")
    assert code == 1
    assert len(json.loads(out[out.index("{") :])["missing"]) == number


_LOST = {
    "the vault's head": lambda home, vault: _remove(vault, "head"),
    "both": lambda home, vault: _remove(vault, "jsonl", "head"),
    "its last epoch": lambda home, vault: _cut(vault / "ledger.jsonl"),
    "a trial of the plan": lambda home, vault: _forget_trial(vault / "draws"),
    "a trial's result": lambda home, vault: _forget_result(vault / "draws"),
    "both of the home's": lambda home, vault: _remove(home, "jsonl", "head"),
}


def _remove(place, *suffixes):
    for suffix in suffixes:
        (place / f"ledger.{suffix}").unlink()


def _cut(file):
    """An older copy of the ledger: whole, with its head, without the last epoch."""
    last = entries(file)[-1]
    rewrite(file, lambda entry: None if entry == last else entry)


def _forget_trial(draws):
    folder = SweepFolder(draws)
    plan = folder.plan()
    folder.replace_plan(folder.space(), replace(plan, trials=plan.trials[1:]))


def _forget_result(draws):
    folder = SweepFolder(draws)
    last = folder.plan().trials[-1].id
    rewrite_sweep(folder, "ended", lambda e: None if e["trial"] == last else e)


def test_a_vault_that_has_lost_something_is_not_opened(place):
    """Without an entry for every epoch the trials would cost less than they showed, or
    nothing.
    """
    folder, home, kept = place.run(), place.settings.home, place.path / "kept"
    paid = place.ledger.entries()
    shutil.copytree(home, kept)
    for lost, damage in _LOST.items():
        damage(home, Vault(folder).path)
        with refused(r"^expected ", InvalidData):
            place.unseal()
        assert not folder.is_unsealed, lost
        assert len(folder.records()) == 1, lost
        shutil.rmtree(home)
        shutil.copytree(kept, home)
        assert Ledger(home / FILE).entries() == paid
    _remove(home, "jsonl", "head")
    (found,) = ledger_check.check(place.settings)
    assert found.problem == "its selection has no entry"
    assert ledger_check.repair(place.settings) == []
    (again,) = Ledger(home / FILE).entries()
    assert again.release == paid[0].release
    place.unseal()
    assert len(folder.records()) == _NUMBER


def test_a_copy_of_a_private_selection_releases_no_second_best(place, monkeypatch):
    """It was paid once; a renamed folder is the same sweep, and goes on."""
    with monkeypatch.context() as patch:
        patch.setattr(selection, "release_best", _crash)
        with pytest.raises(Crash):
            place.run()
    home = place.settings.home
    shutil.copytree(home / "toy", home / "copy")
    for name in ("toy", "copy"):
        with refused("expected one folder of the private selection"):
            place.resume(name)
    shutil.rmtree(home / "toy")
    (home / "copy").rename(home / "renamed")
    place.resume("renamed")
    assert len(place.ledger.entries()) == 1


def test_what_is_outside_the_vault_is_as_much_whatever_number_was_drawn(
    tmp_path, monkeypatch
):
    """Files by their names without ids, lines by number, and no time before the
    release.
    """
    found = []
    for number in (1, 7):
        draw(monkeypatch, number)
        place = tmp_path / str(number)
        folder = run_untracked(place, **_fields())
        (record,) = folder.records()
        released = folder.state().trial(record.plan.id).result or {}
        vault = Vault(folder)
        drawn = vault.draws.plan().trials
        last = max(
            row["time"] for trial in drawn for row in vault.draws.epochs(trial.id)
        )
        assert all(row["time"] >= last for row in folder.epochs(record.plan.id))
        files = [p for p in place.rglob("*") if p.is_file() and "vault" not in p.parts]
        inside = folder.trial_folder(record.plan.id)
        assert all(p.stat().st_mtime >= last for p in files if inside in p.parents)
        assert released["time"] >= last
        found.append(
            sorted(
                (
                    re.sub(r"[0-9a-f]{12,}|/[17]/", "#", str(p)),
                    p.read_bytes().count(b"\n"),
                )
                for p in files
                if p.suffix not in (".u64", ".key", ".npy", ".safetensors")
            )
        )
    assert found[0] == found[1]


@pytest.mark.parametrize("step", ["charge", "files"])
def test_an_unsealing_that_crashed_is_finished_by_the_next(place, monkeypatch, step):
    folder = place.run()
    with monkeypatch.context() as patch:
        if step == "charge":
            patch.setattr(Ledger, "charge", _after(Ledger.charge))
        else:
            patch.setattr("sweep.runtime.selection.release_all", _crash)
        with pytest.raises(Crash):
            place.unseal()
    assert spend_of(folder)[0] is not None
    place.unseal()
    keys = [
        (e.trial, e.attempt, e.first_epoch, e.epochs) for e in place.ledger.entries()
    ]
    assert len(keys) == len(set(keys))
    assert len(folder.records()) == spend_of(folder)[0].num_releases == _NUMBER


def test_what_cannot_be_unsealed_is_refused_in_a_line(tmp_path):
    run_untracked(tmp_path / "plain")
    with refused("its trials are not sealed"):
        Place(tmp_path / "plain").unseal()
    place = Place(tmp_path / "tight")
    place.path.mkdir()
    folder = place.run(budget={"total": 1.01 * place.prepare().price.epsilon_selected})
    with refused(r"exceeds budget\.total=.* they stay sealed"):
        place.unseal()
    assert (len(folder.records()), len(place.ledger.entries())) == (1, 1)
