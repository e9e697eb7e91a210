import json

import pytest

from sweep import cli
from sweep.commands import _output, export
from sweep.results.report_files import gather
from sweep.runtime.runner import Run
from sweep.store.sweeps import SweepFolder
from tests.refusals import refused
from tests.sweep.results.test_paired_comparison import sweep_of
from tests.sweep.store.test_sweep_folder import result
from trainables.errors import TrialFailed


@pytest.fixture
def home(place, monkeypatch):
    monkeypatch.setenv("SWEEP_TRACKING", "none")
    monkeypatch.setenv("COLUMNS", "200")
    return place / "home"


def finish(folder, place, **metrics):
    trial = folder.plan().trials[place]
    folder.start_trial(trial)
    folder.finish_trial(result(trial_id=trial.id, metrics=metrics), when=1.0, reason="")


def test_a_trial_of_epsilon_0_is_chosen_for_a_report(home):
    folder = sweep_of(home, "free", None, None)
    finish(folder, 0, ser=0.4, validation_ser=0.4, epsilon=0.0)
    finish(folder, 1, ser=0.2, validation_ser=0.2, epsilon=9.0)
    found = gather(folder, epsilon_max=1.0)
    assert (found.chosen, found.chosen_by) == ("free0", "validation_ser")


def test_an_export_names_the_figure_that_all_its_candidates_were_compared_by(home):
    folder = sweep_of(home, "mixed", None, None)
    finish(folder, 0, ser=0.2, validation_ser=0.2, epsilon=1.0)
    finish(folder, 1, ser=0.4, epsilon=1.0)
    [best], _, by = export._choose(
        folder, None, best=None, epsilon_max=None, any_epsilon=False
    )
    assert (best.plan.id, by) == ("mixed0", "ser"), (
        "not by validation_ser, which the other lacks"
    )


def ended(folder, *, as_json=False, epsilon_max=None):
    done = Run(folder=folder, tracking_problem=None)
    _output.finish(done, as_json=as_json, export=True, epsilon_max=epsilon_max)


def test_a_run_says_to_people_and_programs_why_nothing_was_exported(home, capsys):
    folder = sweep_of(home, "one", 0.5, 0.25)
    ended(folder, epsilon_max=1.0)
    why = "nothing is exported: no finished trial has epsilon <= 1"
    assert why in capsys.readouterr().out
    ended(folder, as_json=True, epsilon_max=1.0)
    found = json.loads(capsys.readouterr().out)
    assert found["exported"] is None
    assert found["not_exported"].startswith(why)
    ended(sweep_of(home, "new", None))
    assert (
        "exported: no trial other than baselines has finished"
        in capsys.readouterr().out
    )


def test_a_failed_export_hides_no_result_of_the_run(home, capsys):
    folder = sweep_of(home, "one", 0.5, 0.25)  # whose trials have no privacy card
    with refused(r"privacy card .*`sweep export one` tries it again", TrialFailed):
        ended(folder, epsilon_max=9.0)
    shown = capsys.readouterr().out
    assert "one1" in shown
    assert "results: " in shown
    with refused("privacy card", TrialFailed):
        ended(folder, as_json=True, epsilon_max=9.0)
    found = json.loads(capsys.readouterr().out)
    assert len(found["trials"]) == 2
    assert "privacy card" in found["not_exported"]


def test_sweeps_are_listed_by_age_with_their_trials_and_a_damaged_one_with_its_damage(
    home, line
):
    assert line.document("list")["sweeps"] == []
    sweep_of(home, "young", 0.5, None, created=3.0)
    sweep_of(home, "old", 0.5, 0.25, created=2.0)
    log = sweep_of(home, "broken", created=4.0).path / "sweep.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"planned"', b'"plenned"'))
    assert "expected" in line.refused("show", "broken")
    rows = line.document("list")["sweeps"]
    assert [row["name"] for row in rows] == ["old", "young", "broken"]
    assert [row["trials"] for row in rows] == [
        {"done": 2},
        {"done": 1, "planned": 1},
        {},
    ]
    assert "sweep.jsonl" in rows[2]["problem"]
    with SweepFolder(home / "old").hold_lock():
        running = [row["running"] for row in line.document("list")["sweeps"]]
    assert running == [True, False, False]
    shown = line.says("list")
    assert "1 done, 1 planned" in shown
    assert "damaged" in shown


def test_an_export_of_several_trials_is_refused_before_the_first_one_is_written(
    home, tmp_path, line
):
    sweep_of(home, "one", 0.5, 0.25, None)
    target = tmp_path / "front"
    (target / "one1").mkdir(parents=True)
    said = line.refused(
        "export", "one", "--best=pareto", "--any-epsilon", "--to", target
    )
    assert f"got {target / 'one1'}, which exists" in said
    assert [path.name for path in target.iterdir()] == ["one1"]


def test_a_sweep_is_shown_with_its_front_and_its_best(home, line):
    sweep_of(home, "one", 0.5, 0.25, None)
    found = line.document("show", "one")
    assert [trial["status"] for trial in found["trials"]] == ["done", "done", "planned"]
    assert found["front"] == ["one0", "one1"], "less SER costs more epsilon here"
    assert found["best"] == ["one1"]
    assert found["damages"] == {}
    assert line.says("show", "one").startswith("at epsilon ≤ 8 use ")


def test_a_damaged_result_is_said_and_hides_no_other(home, line):
    folder = sweep_of(home, "one", 0.5, 0.25)
    (folder.trial_folder("one0") / "config.yaml").write_text("engine: dp_sgd\n")
    found = line.document("show", "one")
    assert list(found["damages"]) == ["one0"]
    assert "config.yaml" in found["damages"]["one0"]
    assert len(found["trials"]) == 2


def test_a_deletion_asks_and_a_running_sweep_stays(home, line, monkeypatch):
    folder = sweep_of(home, "one", 0.5)
    monkeypatch.setattr(
        "typer.confirm", lambda *_, **__: pytest.fail("asked in spite of --yes")
    )
    with folder.hold_lock():
        assert "one is running" in line.refused("delete", "one", "--yes")
    assert folder.plan().trials
    assert (
        line.says("delete", "one", "--yes")
        == "one is deleted; the ledger keeps what it spent.\n"
    )
    assert not folder.path.exists()
    assert "no sweep named one" in line.refused("delete", "one", "--yes")


def test_to_delete_a_sweep_that_mlflow_never_had_makes_no_store(home, monkeypatch):
    sweep_of(home, "one", 0.5)
    monkeypatch.setenv("SWEEP_TRACKING", "mlflow")
    assert cli.run(["delete", "one", "--yes"]) == 0
    assert not list(home.glob("mlflow*"))


def test_a_label_with_brackets_is_no_markup(capsys):
    _output.say_table(
        ("label", "records"), [("[/city]", "1"), ("[red]", "2")], right=True
    )
    printed = capsys.readouterr().out
    assert "[/city]" in printed
    assert "[red]" in printed
