"""Damage to a finished trial or an export is detected by every reader, in one line."""

import json
import shutil
from contextlib import nullcontext
from dataclasses import replace

import pytest

from sweep.results.export import export_trial, public_metrics
from sweep.results.exported import damages, require_export
from sweep.results.predict import load_model
from sweep.results.privacy_cards import write_card
from sweep.results.report_files import gather
from sweep.store import manifest
from sweep.store.state import TrialStatus
from sweep.store.sweeps import SweepFolder
from tests.flushes import flushes
from tests.refusals import refused
from tests.sweep.untracked import run_untracked
from trainables.errors import InvalidData, SweepError


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    return run_untracked(tmp_path_factory.mktemp("manifests"))


@pytest.fixture
def toy(done, tmp_path):
    home = tmp_path / "home"
    shutil.copytree(done.path.parent, home)
    return SweepFolder(home / done.name)


def edited(change):
    """Change the privacy card of a folder, as somebody with an editor would."""

    def damage(folder):
        file = folder / "privacy_card.json"
        document = json.loads(file.read_text())
        change(document)
        file.write_text(json.dumps(document, indent=1) + "\n")

    return damage


def written(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def flip(folder):
    path = folder / "model" / "weights.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


_OTHERS = json.dumps({"files": {"../result.json": {"size": 1, "sha256": ""}}}).encode()
# What is done, and what is said of a trial whose manifest lists it; None: the manifest
# alone tells.
DAMAGES = {
    "weights emptied": (
        written("model/weights.safetensors", b""),
        r"weights\.safetensors",
    ),
    "weights flipped": (flip, None),
    "model missing": (lambda place: shutil.rmtree(place / "model"), "model"),
    "card missing": (lambda place: (place / "privacy_card.json").unlink(), "got none"),
    "card's noise edited": (
        edited(lambda card: card.update(noise_multiplier=9.0)),
        "to match the trial, got another noise_multiplier",
    ),
    # The first field of the mechanism and the last.
    **{
        f"card's {name} edited": (
            edited(lambda card, name=name: card["mechanism"].update({name: 9})),
            "to match the trial, got another mechanism",
        )
        for name in ("engine", "steps_per_epoch")
    },
    "card's page edited": (written("privacy_card.md", b"all is well"), None),
    "config edited": (written("config.yaml", b"engine: sgd\n"), None),
    "manifest missing": (lambda place: (place / manifest.FILE).unlink(), None),
    "manifest cut": (written(manifest.FILE, b"{"), None),
    "manifest of others": (written(manifest.FILE, _OTHERS), None),
}
_SAID = {
    "manifest missing": "in the export",
    "weights flipped": r"weights\.safetensors has another content",
}


def test_a_manifest_names_what_is_on_the_disk(tmp_path, monkeypatch):
    """A power failure after it was written damages no file that it lists."""
    (tmp_path / "model").mkdir()
    for name in ("config.yaml", "model/weights"):
        (tmp_path / name).write_text(name)
    with flushes(monkeypatch) as flushed:
        manifest.write(tmp_path)
    assert {path.stat().st_ino for path in (tmp_path, *tmp_path.rglob("*"))} <= flushed


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_trial_is_not_exported(toy, tmp_path, damage):
    """Whatever its manifest lists: whoever can write a folder can write its
    manifest.
    """
    record, (harm, words) = toy.records()[1], DAMAGES[damage]
    place = toy.trial_folder(record.plan.id)
    harm(place)
    for said in filter(None, ("^", words)):
        with refused(said, SweepError):
            export_trial(toy, record, tmp_path / "out")
        assert [path for path in tmp_path.iterdir() if path != toy.path.parent] == []
        manifest.write(place)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"metrics": {"epsilon": 0.5}}, "to match the trial, got another epsilon"),
        ({"privacy": None}, "got none: no export"),
    ],
)
def test_what_the_log_says_of_a_trial_is_on_its_card(toy, tmp_path, fields, words):
    with refused(rf"privacy_card\.json.*{words}", SweepError):
        export_trial(toy, replace(toy.records()[1], **fields), tmp_path / "out")


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        *((damage, "out") for damage in DAMAGES),
        *((damage, "model") for damage in _SAID),
    ],
)
def test_a_damaged_export_is_not_used(toy, tmp_path, damage, name):
    """Its own folder `model` is checked by the manifest around it, whatever that is
    called.
    """
    place = export_trial(toy, toy.records()[1], tmp_path / name)
    require_export(place)
    DAMAGES[damage][0](place)
    for folder in (place, place / "model"):
        with refused(f"expected.*{_SAID.get(damage, '')}", SweepError):
            load_model(folder)


@pytest.mark.parametrize(
    "added",
    ["encoder/added_tokens.json", "transformers/tokenizer.json", "x.safetensors"],
)
def test_a_file_added_to_the_model_of_an_export_is_refused(toy, tmp_path, added):
    """An encoder's loader reads what it finds."""
    place = export_trial(toy, toy.records()[1], tmp_path / "out")
    (place / "notes.md").write_text("of the recipient")
    (place / "model" / ".DS_Store").write_text("")
    require_export(place)
    file = place / "model" / added
    file.parent.mkdir(exist_ok=True)
    file.write_text("{}")
    for folder in (place, place / "model"):
        with refused(f"got model/{added} as well", InvalidData):
            load_model(folder)


@pytest.mark.parametrize("budget", [{}, {"epsilon": 8.0}, {"total": 8.0}])
def test_beside_a_budget_a_baseline_without_noise_is_the_curators(
    toy, tmp_path, budget
):
    """A trial with noise is not. One whose epsilon is 0 is not either, by its own
    figure: here only the card, which says otherwise, stops it.
    """
    space, (baseline, private, _) = toy.space(), toy.records()
    limits = space.budget.model_copy(update=budget)
    toy.replace_plan(space.model_copy(update={"budget": limits}), toy.plan())
    assert export_trial(toy, private, tmp_path / "private").is_dir()
    without = replace(baseline, metrics={**baseline.metrics, "epsilon": 0.0})
    with refused("to match the trial, got another epsilon", InvalidData):
        export_trial(toy, without, tmp_path / "without")
    with refused("a baseline without noise") if budget else nullcontext():
        export_trial(toy, baseline, tmp_path / "out")
    assert (tmp_path / "out").exists() != bool(budget)


@pytest.mark.parametrize("objective", ["validation_ser", "leakage"])
@pytest.mark.parametrize(
    ("chosen_by", "said"), [(None, 0), ("ser", 0), ("mia_shadow_auc", 1)]
)
def test_an_export_says_which_choices_no_epsilon_covers(
    toy, tmp_path, objective, chosen_by, said
):
    space = toy.space()
    search = {"strategy": "tpe", "num_samples": 3, "objectives": (objective,)}
    search = space.search.model_copy(update=search)
    attacked = {**space.base, "evaluation": {}}
    toy.replace_plan(
        space.model_copy(update={"search": search, "base": attacked}), toy.plan()
    )
    record = toy.records()[1]
    without = json.loads(
        (export_trial(toy, record, tmp_path / "bare") / "about.json").read_text()
    )
    assert len(without["notes"]) == (objective == "leakage")
    assert without["predict"] == "sweep predict . < utterances"
    record = replace(
        record, privacy=record.privacy.model_copy(update={"provenance": "of my own"})
    )
    write_card(toy.trial_folder(record.plan.id), record.privacy)
    manifest.write(toy.trial_folder(record.plan.id))
    own_code = record.plan.fields | {
        "model": {**record.plan.fields["model"], "factory": "mine:m"}
    }
    record = replace(record, plan=replace(record.plan, origin=own_code))
    place = export_trial(toy, record, tmp_path / "out", chosen_by=chosen_by)
    about = json.loads((place / "about.json").read_text())
    assert about["chosen_by"] == chosen_by
    assert (about["repeat"], about["predict"]) == (
        "sweep run config.yaml --set data.schema_file=PATH --set data.path=PATH",
        "sweep predict . --factory mine:m < utterances",
    )
    provenance, *notes = about["notes"]
    assert provenance == "of my own"
    assert len(notes) == said + (objective == "leakage")
    assert all("from private records without noise" in line for line in notes)


def test_an_export_has_no_times(toy):
    """They follow from how many records a step has."""
    record = toy.records()[1]
    timed = replace(record, metrics=record.metrics | {"seconds_train": 1.0})
    assert public_metrics(timed) == public_metrics(record) != {}


def test_a_trials_folder_without_its_manifest_is_refused(toy, tmp_path):
    """A copy, too, while it has a card; without either it is a folder like others."""
    place = toy.trial_folder(toy.records()[1].plan.id)
    (place / manifest.FILE).unlink()
    copied = shutil.copytree(place, tmp_path / "copied")
    (place / "privacy_card.json").unlink()
    for folder in (place, copied):
        with refused(r"manifest\.json is missing", InvalidData):
            require_export(folder)
    (copied / "privacy_card.json").unlink()
    require_export(copied)


def test_a_reviewers_decision_is_on_the_card(toy, tmp_path, monkeypatch, line):
    monkeypatch.setenv("SWEEP_HOME", str(toy.path.parent))
    export = ["export", "toy", "--any-epsilon", "--to", tmp_path / "out"]
    export += ["--reviewer", "A. | Person"]
    assert "got no --decision" in line.refused(*export)
    line.says(*export, "--decision", "may be published")
    page = (tmp_path / "out" / "privacy_card.md").read_text()
    assert "| A. / Person | 20" in page
    assert "| may be published |" in page
    card = json.loads((tmp_path / "out" / "privacy_card.json").read_text())
    assert card["review"]["decision"] == "may be published"
    require_export(tmp_path / "out")


def test_show_marks_a_damaged_trial_and_the_report_refuses_it(toy, monkeypatch, line):
    assert damages(toy, toy.records()) == {}
    record = toy.records()[1]
    edited(lambda card: card.update(epsilon=2))(toy.trial_folder(record.plan.id))
    monkeypatch.setenv("SWEEP_HOME", str(toy.path.parent))
    shown = " ".join(line.says("show", "toy").split())
    assert f"damaged: trial {record.plan.id}" in shown
    assert "privacy_card.json has another" in shown
    assert list(line.facts("show", "toy")["damages"]) == [record.plan.id]
    with refused(r"privacy_card\.json has another", InvalidData):
        gather(toy, epsilon_max=8.0)
    for each in toy.records():
        (toy.trial_folder(each.plan.id) / manifest.FILE).unlink()
    assert list(damages(toy, toy.records())) == [each.plan.id for each in toy.records()]
    assert damages(toy, [replace(record, status=TrialStatus.FAILED)]) == {}
