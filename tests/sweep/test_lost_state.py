"""Every file of a home removed, emptied, cut, older or another home's: nothing becomes
cheaper, is trained again or leaves, and what is refused is one line with a way on.
"""

import json
import os
import shutil
from functools import partial

import pytest

from sweep import cli
from sweep.results.export import spend_of
from sweep.runtime import runner
from sweep.spending.ledger import FILE, Ledger
from sweep.store import data_sets
from sweep.store import sweeps as store
from sweep.store.sweeps import SweepFolder
from tests.libraries import IGNORED
from tests.sweep import lost_state, toy_trial
from tests.sweep.lost_state import (
    DAMAGES,
    FAILED,
    MARKED,
    NONE,
    REFUSED,
    SAME,
    TABLE,
    by_name,
)
from tests.sweep.sweeps import TOY, medium_grids
from tests.sweep.untracked import leave_out_mlflow
from trainables.io.documents import format_yaml

pytestmark = IGNORED


class Place:
    """The home of a test: `whole` again before each damage."""

    def __init__(self, folder, capsys=None):
        self.whole, self.home = folder / "a", folder / "a" / "home"
        self._kept = folder / "kept"
        shutil.copytree(self.home, self._kept)
        self.of = by_name(self.home)
        other = folder / "b" / "home"
        self._others = {name: other / place for name, place in by_name(other).items()}
        self.spent = self._total()
        folders = {name: SweepFolder(self.home / name) for name in lost_state.SWEEPS}
        self.totals = {
            name: spend_of(folder)[0].epsilon for name, folder in folders.items()
        }
        self.sources = [
            self._write("new", "mine.jsonl"),
            self._write("near", "near.jsonl"),
        ]
        self.trained, self.capsys = [], capsys
        self._is_whole = True

    def _total(self):
        ledger = Ledger(self.home / FILE)
        (name,) = ledger.datasets()
        return ledger.spend(name).total.epsilon

    def _write(self, name, file):
        """A space of one trial; `near.jsonl` shares all records but one with the data
        set.
        """
        if not (self.whole / file).exists():
            text = (self.whole / "mine.jsonl").read_text()
            (self.whole / file).write_text(text.replace("person0", "somebody"))
        data = {
            **{"name": "json_lines", "path": str(self.whole / file), "num_records": 90},
            "schema_file": str(self.whole / "mine.schema.json"),
        }
        base = {
            **lost_state.SWEEPS["done"]["base"],
            "data": data,
            "evaluation": {"attacks": []},
        }
        fields = {
            **{"name": name, "base": base, "axes": {"privacy.noise_multiplier": [4.0]}},
            "resources": {"executor": "local"},
        }
        place = self.whole / f"{name}.yaml"
        place.write_text(format_yaml(fields))
        return place

    def restore(self):
        if not self._is_whole:
            shutil.rmtree(self.home)
            shutil.copytree(self._kept, self.home)
            shutil.rmtree(self.whole / "out", ignore_errors=True)
        self._is_whole = False

    def copies(self, name):
        """The file, its older copy, and another home's; None where there is none, or no
        other.
        """
        place = self.of[name]
        file, older = self._kept / place, self.whole / "older" / place
        found = [self.home / place]
        for copy in (older, self._others.get(name)):
            is_other = copy and copy.exists() and copy.read_bytes() != file.read_bytes()
            found.append(copy if is_other else None)
        return found

    def says(self, *words):
        """The exit code, what is printed, and the one line of what is refused."""
        self.capsys.readouterr()
        code = cli.run([str(word) for word in words])
        out, err = self.capsys.readouterr()
        assert code in (0, 2) or "1 of 2 trials failed" in err
        if code:
            assert err.count("\n") == 1
            assert err.startswith("error: ")
        return code, out, err

    def commands(self, name):
        """What reads a file, the commands that change something last."""
        sweep, out = name.split("/")[0], self.whole / "out"
        export = ("export", "--any-epsilon", "--to", out)
        if sweep not in lost_state.SWEEPS:
            yield from (
                ("ledger", "--json"),
                (*export, "picked"),
                ("resume", "stopped", "--json"),
            )
            return
        yield ("show", sweep, "--json")
        if sweep == "picked":
            yield (*export, sweep)
        else:
            place = self.of.get(
                name if "/ID/" in name else f"{sweep}/trials/ID/config.yaml"
            )
            yield (*export, sweep, "--trial", place.split("/")[2])
        yield ("resume", sweep, "--json")
        if sweep == "picked":
            yield ("unseal", sweep, "--yes", "--json")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("homes")
    with medium_grids():
        for name in ("a", "b"):
            lost_state.build(folder / name)
        yield Place(folder)


@pytest.fixture
def place(built, monkeypatch, capsys):
    for name in ("start", "resume"):
        monkeypatch.setattr(runner, name, partial(getattr(runner, name), function=TOY))
    leave_out_mlflow(monkeypatch)
    monkeypatch.setenv("SWEEP_TRACKING", "none")
    monkeypatch.setenv("SWEEP_HOME", str(built.home))
    monkeypatch.setenv("SWEEP_DATA_DIR", str(built.whole))
    built.capsys, built.trained = capsys, []

    def note(folder, rank, epoch):
        built.trained.append((folder.parents[1].name, epoch))

    monkeypatch.setattr(toy_trial, "_fault", note)
    data_sets.open_data.cache_clear()  # as in a process of its own
    built.restore()
    return built


def outcome(place, name):
    """What the commands that read a file do. Whatever it is: no epoch is trained that
    had been, the ledger's total does not fall, no new sweep fits into a budget that is
    full, and no other trial of the selection leaves.
    """
    before = store.open_sweep(place.whole.parent / "kept", "picked").records()
    found, unsealed = SAME, False
    for command in place.commands(name):
        code, out, err = place.says(*command)
        if code == 2:
            found = REFUSED
            assert "restore" in err or "delete it to rebuild it" in err
        elif code == 1:
            found = FAILED
        if code:
            continue
        unsealed |= command[0] == "unseal"
        if command[0] == "ledger":
            spends = json.loads(out)["datasets"]
            assert max(spend["total"]["epsilon"] for spend in spends) >= place.spent
        elif command[0] == "export":
            card = json.loads((place.whole / "out" / "privacy_card.json").read_text())
            name = next(sweep for sweep in lost_state.SWEEPS if sweep in command)
            assert card["sweep_total"]["epsilon"] == place.totals[name]
        elif command[0] in ("show", "resume") and found == SAME:
            shown = json.loads(out)
            is_marked = shown.get("damages") or any(
                t["reason"] for t in shown["trials"]
            )
            found = MARKED if is_marked else SAME
        shutil.rmtree(place.whole / "out", ignore_errors=True)
    for source in place.sources:
        code, _, err = place.says("run", source, "--budget-total", place.spent + 0.05)
        assert code == 2, "it fits only where a charge is forgotten"
    assert set(place.trained) <= {("stopped", 1)}
    assert len(place.trained) <= 1
    if not unsealed and found != REFUSED and name.startswith("picked"):
        assert store.open_sweep(place.home, "picked").records() == before
    return found


CASES = [
    (name, how)
    for name, answers in TABLE.items()
    for how, answer in zip(DAMAGES, answers, strict=True)
    if answer != NONE
]


def test_the_table_has_every_file_of_a_home(place):
    """And an answer for each copy of it that is another one."""
    assert set(place.of) == set(TABLE)
    for name, answers in TABLE.items():
        file, *copies = place.copies(name)
        is_empty = file.stat().st_size == 0
        there = [
            True,
            not is_empty,
            not is_empty,
            *(copy is not None for copy in copies),
        ]
        assert [answer != NONE for answer in answers] == there, name


@pytest.mark.parametrize(("name", "how"), CASES)
def test_a_file_that_is_lost_makes_nothing_cheaper_public_or_trained_again(
    place, name, how
):
    file, older, other = place.copies(name)
    DAMAGES[how](file, older, other)
    assert outcome(place, name) == TABLE[name][list(DAMAGES).index(how)]


# Files, or folders, that are lost together, and where they come from; the sweep that
# says so.
_TOGETHER = {
    "ledger and head removed": (("ledger.jsonl", "ledger.head"), None, "done"),
    "ledger and head older": (("ledger.jsonl", "ledger.head"), "older", "done"),
    "ledger and head another home's": (
        ("ledger.jsonl", "ledger.head"),
        "other",
        "done",
    ),
    "log and head older": (("done/sweep.jsonl", "done/sweep.head"), "older", "done"),
    "log and head another home's": (
        ("done/sweep.jsonl", "done/sweep.head"),
        "other",
        "done",
    ),
    "log and head removed": (("done/sweep.jsonl", "done/sweep.head"), None, "done"),
    "vault removed": (("picked/vault",), None, "picked"),
    "vault older": (("picked/vault",), "older", "picked"),
    "vault another home's": (("picked/vault",), "other", "picked"),
    "draws removed": (("picked/vault/draws",), None, "picked"),
    "vault's ledger and head removed": (
        ("picked/vault/ledger.jsonl", "picked/vault/ledger.head"),
        None,
        "picked",
    ),
    "vault and ledger removed": (
        ("picked/vault", "ledger.jsonl", "ledger.head"),
        None,
        "picked",
    ),
}


@pytest.mark.parametrize("lost", _TOGETHER)
def test_files_that_are_lost_together_are_known_by_the_others(place, lost):
    """By the sweeps' own logs, by the ledger, and by what a selection has released."""
    parts, source, sweep = _TOGETHER[lost]
    for part in parts:
        remove = shutil.rmtree if (place.home / part).is_dir() else os.unlink
        remove(place.home / part)
        if source is not None:
            top = (
                place.whole / "older"
                if source == "older"
                else place.whole.parent / "b" / "home"
            )
            copy = shutil.copytree if (top / part).is_dir() else shutil.copyfile
            copy(top / part, place.home / part)
    last = (
        ("unseal", sweep, "--yes")
        if sweep == "picked"
        else ("export", sweep, "--any-epsilon")
    )
    commands = (
        [last] if "vault's ledger" in lost else [("resume", sweep, "--json"), last]
    )
    if "ledger and head" in lost and "vault" not in lost:
        commands += [("ledger", "--json"), ("resume", "stopped", "--json")]
    for command in commands:
        code, _, err = place.says(*command)
        assert code == 2, command
        assert "restore" in err or (command[0] == "export" and "has finished" in err)
    if "log and head" not in lost:
        for source in place.sources:
            assert (
                place.says("run", source, "--budget-total", place.spent + 0.05)[0] == 2
            )
    assert place.trained == []
    if sweep == "picked":
        kept = store.open_sweep(place.whole.parent / "kept", sweep)
        assert store.open_sweep(place.home, sweep).records() == kept.records()
        assert (
            "restore" in place.says("show", sweep)[1]
            or "removed" not in lost
            or "'s" in lost
        )


def test_a_trial_whose_folder_is_removed_is_trained_and_paid_for_again(place):
    """Its charges stay; the new ones are of a new attempt."""
    folder = store.open_sweep(place.home, "stopped")
    (trial,) = [
        t.id for t in folder.plan().to_run if folder.state().trial(t.id).result is None
    ]
    before = len(Ledger(place.home / FILE).of_sweep(folder.ledger_name))
    shutil.rmtree(folder.trial_folder(trial))
    assert place.says("resume", "stopped", "--json")[0] == 0
    assert place.trained == [("stopped", 0), ("stopped", 1)]
    after = Ledger(place.home / FILE).of_sweep(folder.ledger_name)
    assert [(e.first_epoch, e.epochs) for e in after[before:]] == [(0, 2)]
