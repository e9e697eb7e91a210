"""The home of all sweeps: whole or absent, listed by age; changes of a space by their
fields.
"""

import errno
import os
import shutil
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from sweep.store import sweeps as store
from sweep.store.data_sets import open_data
from sweep.store.plans import Plan
from sweep.store.sweeps import LOG, Vault, require_storage, storage_faults
from tests.refusals import refused
from tests.sweep.store.test_sweep_folder import TRIAL
from tests.sweep.sweeps import settings_in, space_in
from trainables.config.trial import data_config
from trainables.errors import StorageFailed

PLAN = Plan(name="toy", trials=(TRIAL,))


@pytest.fixture
def space(tmp_path):
    return space_in(tmp_path)


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


def create(home, space, name="toy", **about):
    space = space.model_copy(update={"name": name})
    return store.create(home, space, PLAN, about=about)


def test_sweeps_are_listed_oldest_first_and_a_damaged_one_is_listed_too(home, space):
    assert store.names(home) == []
    for name, created in (("b", 2.0), ("a", 3.0), ("c", 1.0)):
        create(home, space, name, created=created)
    assert store.names(home) == ["c", "b", "a"]
    (home / "b" / LOG).write_text("{")
    (home / ".half.12").mkdir()
    (home / ".half.12" / LOG).write_text("{}")
    (home / "notes").mkdir()
    assert store.names(home) == ["b", "c", "a"]


def test_a_folder_that_is_no_sweeps_stops_no_command(home, space, monkeypatch):
    """A copy of a sweep, and on a disk of its own the home has a folder of the
    system.
    """
    create(home, space)
    for copied in ("toy (copy)", "Toy", "cache", ".toy"):
        shutil.copytree(home / "toy", home / copied)
    (home / "lost+found").mkdir()
    stat = Path.stat

    def no_access(path, **named):
        if path.parent.name == "lost+found":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return stat(path, **named)

    monkeypatch.setattr(Path, "stat", no_access)
    assert store.names(home) == ["toy"]


def test_a_name_that_is_used_again_is_another_sweep_to_the_ledger(home, space):
    first = create(home, space)
    name = first.ledger_name
    first.delete()
    assert create(home, space).ledger_name != name
    assert name.startswith("toy@")


def test_a_disk_that_fails_in_the_middle_leaves_no_half_sweep(home, space, monkeypatch):
    """At whichever of its files: the home is as it was."""
    create(home, space, "other")
    before = sorted(home.rglob("*"))
    whole = os.fsync
    for failing in range(1, 7):
        calls = 0

        def fail(descriptor, failing=failing):
            nonlocal calls
            calls += 1
            if calls == failing:
                raise OSError(28, "No space left on device")
            whole(descriptor)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            with refused("run the same command again", StorageFailed):
                create(home, space)
        assert sorted(home.rglob("*")) == before
    assert create(home, space).plan() == PLAN


def test_a_home_that_is_a_file_is_refused_with_its_name(home, space):
    home.write_text("a file")
    with refused(f"^cannot write to SWEEP_HOME={home}: "):
        create(home, space)


def test_how_to_go_on_depends_on_what_is_saved(home, space):
    assert (
        store.how_to_go_on(home, "toy")
        == "no trial has begun; run the same command again"
    )
    create(home, space)
    assert "`sweep resume toy` continues" in store.how_to_go_on(home, "toy")


@pytest.fixture
def folder(home, space):
    return create(home, space, command=["sweep", "run"], git_commit=None, versions={})


def test_facts_are_added_and_none_is_lost(folder):
    before = folder.about()
    assert before["command"] == ["sweep", "run"]
    folder.note(budget_total=8.0)
    assert folder.about() == before | {"budget_total": 8.0}
    assert not folder.is_unsealed
    folder.note(unsealed=1.0)
    assert folder.is_unsealed


def test_a_trial_is_found_by_its_name_or_the_beginning_of_its_id(folder):
    assert all(
        folder.plan_of(one) == TRIAL for one in (TRIAL.id, TRIAL.id[:4], TRIAL.name)
    )
    with refused(r"the id of a trial of toy, got 'zz': 0 trials$"):
        folder.plan_of("zz")
    twin = replace(TRIAL, id=f"{TRIAL.id[:4]}twin")
    folder.replace_plan(folder.space(), Plan(name="toy", trials=(TRIAL, twin)))
    for both in (TRIAL.id[:4], TRIAL.name):
        with refused(r": 2 trials$"):
            folder.plan_of(both)
    assert folder.plan_of(twin.id) == twin


def test_a_full_disk_is_one_sentence_and_any_other_error_itself(folder):
    paused = refused(
        r"trials are paused; .* `sweep resume toy` continues$", StorageFailed
    )
    with paused, storage_faults(folder):
        raise OSError(28, "No space left on device")
    with pytest.raises(ZeroDivisionError), storage_faults(folder):
        raise ZeroDivisionError
    with storage_faults(folder):
        pass
    assert folder.plan() == PLAN


@pytest.mark.parametrize(
    ("name", "field"), [("SWEEP_HOME", "home"), ("SWEEP_CACHE_DIR", "cache_dir")]
)
def test_a_folder_that_cannot_be_made_is_named_by_its_variable(name, field, tmp_path):
    require_storage(settings_in(tmp_path))
    (tmp_path / "file").write_text("")
    settings = replace(settings_in(tmp_path), **{field: tmp_path / "file"})
    data = data_config(name="video", num_utterances=1000)
    for use in (require_storage, partial(open_data, data)):
        with refused(f"^cannot write to {name}="):
            use(settings)


def test_a_name_is_given_once_and_an_unknown_one_says_which_there_are(folder):
    with refused(r"no sweep named other in .*; there are: toy"):
        store.open_sweep(folder.path.parent, "other")
    with refused("a sweep named toy exists"):
        store.create(folder.path.parent, folder.space(), folder.plan(), about={})
    assert [path.name for path in folder.path.parent.iterdir()] == ["toy"]


@pytest.mark.parametrize(
    "name",
    [
        *(
            "../toy",
            "toy/../toy",
            "/etc",
            "",
            "Toy",
            ".toy",
            "cache",
            "mlflow.db",
            "mlartifacts",
        ),
        *("ledger.jsonl", "ledger.records", "ledger.key"),
    ],
)
def test_a_name_never_leaves_the_home_and_is_none_of_its_own_files(folder, name):
    """A sweep of such a name would be deleted with the record hashes, say, in it."""
    home, space = folder.path.parent, folder.space()
    for use in (
        lambda: store.open_sweep(home, name),
        lambda: create(home, space, name),
    ):
        with refused(r"^name: "):
            use()


def test_a_vault_releases_one_trial_and_holds_the_others_without_budgets(folder, space):
    vault = Vault(folder)
    assert (vault.is_sealed, vault.is_over, vault.selection()) == (False, False, None)
    limits = space.budget.model_copy(update={"epsilon": 1.0, "total": 2.0, "trials": 1})
    vault.seal(space.model_copy(update={"budget": limits}), PLAN)
    assert vault.is_sealed
    assert vault.draws.plan() == PLAN
    budget = vault.draws.space().budget
    assert (budget.epsilon, budget.total, budget.trials) == (None, None, None)
    assert vault.path.stat().st_mode & 0o077 == 0
    assert store.names(folder.path.parent) == ["toy"], (
        "its draws are no sweep of the home"
    )
    vault.select(trial=None, draw=None)
    assert (vault.is_over, vault.selection()) == (True, {"trial": None, "draw": None})
    vault.select(trial="a", draw="b")
    assert Vault(folder).selection() == {"trial": "a", "draw": "b"}


def commit_all(folder):
    own = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (
        ["init", "--quiet"],
        ["add", "."],
        [*own, "commit", "--quiet", "-m", "one"],
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)
    head = ["git", "rev-parse", "HEAD"]
    return subprocess.run(
        head, cwd=folder, check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.parametrize("is_own", [True, False])
def test_the_commit_is_that_of_the_code(is_own, tmp_path, monkeypatch):
    """And not that of a repository around it."""
    (tmp_path / ".gitignore").write_text("" if is_own else ".venv/\n")
    installed = tmp_path / ".venv" / "sweeps.py"
    installed.parent.mkdir()
    shutil.copy(store.__file__, installed)
    commit = commit_all(tmp_path).strip()
    monkeypatch.setattr(store, "__file__", str(installed))
    assert store.about(["sweep"])["git_commit"] == (commit if is_own else None)


def test_a_disk_on_which_git_hangs_costs_the_commit_alone(monkeypatch):
    def hang(command, *, timeout, **others):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", hang)
    assert store.about(["sweep"])["git_commit"] is None


# Exports and reports have the command, and leave this machine.
STORE = "postgresql://ann:{}@host:5432/runs"


def test_a_command_is_kept_without_the_password_of_the_tracking_store():
    given = ["sweep", "run", "quick", "--tracking-uri", STORE.format("s3cret")]
    kept = store.about([*given, f"--tracking-uri={STORE.format('p/w@d')}"])["command"]
    assert kept == [
        *given[:-1],
        STORE.format("***"),
        f"--tracking-uri={STORE.format('***')}",
    ]
