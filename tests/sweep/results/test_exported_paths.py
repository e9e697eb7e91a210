"""The model of an export names no folder or file of the machine that trained it, and
needs none.
"""

import json
import shutil
from dataclasses import replace

import pytest
import torch
import yaml

from search_spaces import space as spaces
from sweep.planning.prepare import prepare_space
from sweep.results import select
from sweep.results.export import (
    config_to_repeat,
    export_trial,
    how_to_repeat,
    public_metrics,
)
from sweep.results.export_documents import write_model
from sweep.results.exported import require_export
from sweep.results.report_files import write as write_report
from sweep.runtime import runner
from sweep.synthesis.trained_text import models_of, open_trained
from tests.encoders import family_folders
from tests.models._builds import SCHEMA, save_model
from tests.models.test_lm_folder import base_in
from tests.refusals import refused
from tests.sweep.sweeps import TOY, settings_in, space_in
from tests.sweep.untracked import without_mlflow
from tests.tasks._pairs import run_trial, tiny, write_pairs
from trainables import saved
from trainables.config.trial import model_part
from trainables.dp.accounting.rounding import format_epsilon
from trainables.models.encoders.hub import LOCAL_FOLDER
from trainables.models.encoders.named_files import ENCODER, files_digest


def test_an_export_and_a_public_report_name_no_folder(tmp_path):
    """Config, command and search space have the names of files alone; an export's
    config repeats its trial where the files are given again.
    """
    settings = settings_in(tmp_path)
    document = space_in(tmp_path).document()
    # An axis, so that the names of trials have it.
    paths = [document["base"]["data"]["schema_file"]]
    document["variants"][1]["axes"]["data.schema_file"] = paths
    space = spaces.parse(document)
    prepared = prepare_space(space, settings=settings)
    command = [
        "sweep",
        "run",
        str(tmp_path / "space.yaml"),
        f"--set=data.path={tmp_path}/x",
    ]
    with without_mlflow():
        folder = runner.start(prepared, settings, command=command, function=TOY).folder
    [best] = select.choose(folder.records(), best="ser")
    exported = export_trial(folder, best, tmp_path / "export")
    page = (exported / "README.md").read_text()
    require_model_card(page, best, tmp_path)
    (exported / "README.md").write_text("edited, as people do")
    require_export(exported)
    public = write_report(folder, tmp_path / "public", epsilon_max=1e6, public=True)
    for place in (exported, tmp_path / "public"):
        assert str(tmp_path) not in texts_in(place)
    assert "mine.jsonl" in public.page.read_text()
    assert str(tmp_path) in best.plan.name
    about = json.loads((exported / "about.json").read_text())
    assert about["command"][2:] == ["space.yaml", "--set=data.path=x"]
    assert about["repeat"].startswith("sweep run config.yaml --set data.")
    assert about["repeat"].count("=PATH") == 2
    said = how_to_repeat(folder, best, exported)
    named = about["repeat"].replace("config.yaml", str(exported / "config.yaml"))
    assert said.endswith(f"config.yaml` repeats it; elsewhere `{named}`")
    write_report(folder, tmp_path / "own", epsilon_max=1e6)
    assert str(tmp_path) in texts_in(tmp_path / "own")
    pathless = replace(best.plan, origin={**best.plan.fields, "data": {"name": "atis"}})
    by_export = config_to_repeat(folder, replace(best, plan=pathless), exported)
    assert by_export == exported / "config.yaml"
    again = config_to_repeat(folder, best, exported)
    given = {
        f"data.{name}": best.plan.fields["data"][name]
        for name in ("path", "schema_file")
    }
    for config, changes in ((again, {}), (exported / "config.yaml", given)):
        space = spaces.read(str(config), overrides=changes)
        assert [t.id for t in prepare_space(space, settings=settings).plan.to_run] == [
            best.plan.id
        ]


def require_model_card(page, record, folder):
    """The head is that of a hub, the figures are public, and the claim is the card's."""
    _, head, body = page.split("---\n", 2)
    about = yaml.safe_load(head)
    assert about["library_name"] == "dp-nlu-sweep"
    assert {"differential-privacy", "slot-filling"} <= {*about["tags"]}
    assert str(folder) not in page
    assert f"epsilon {format_epsilon(record.privacy.epsilon)} at delta" in body
    assert record.privacy.guarantee in body
    shown = {line.split(" | ")[0][2:] for line in body.splitlines() if line[:2] == "| "}
    assert {name for name in shown if name in record.metrics} == {
        *public_metrics(record)
    }


def texts_in(folder):
    """All files but weights."""
    files = [f for f in folder.rglob("*") if f.is_file() and f.suffix != ".safetensors"]
    return "\n".join(file.read_text(errors="replace") for file in files)


def trained_over(encoder, place, **fields):
    """The model folder of a trial over `encoder`, as one writes it; its weights."""
    config = model_part(encoder=str(encoder), **fields)
    model = config.build(schema=SCHEMA, seed=0)
    digest = {ENCODER: files_digest({"encoder": str(encoder)})}
    save_model(place, model, config, provenance=model.provenance, **digest)
    return model


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("roberta", {"name": "features", "prior": "none"}),
        ("bert", {"name": "bert", "num_layers": 2}),
    ],
)
def test_a_model_of_intents_and_slots(kind, fields, tmp_path):
    encoder = tmp_path / "of this machine"
    family_folders.write(encoder, kind)
    model = trained_over(encoder, tmp_path / "trained", **fields)
    assert "of this machine" not in model.provenance
    exported = tmp_path / "export"
    exported.mkdir()
    write_model(tmp_path / "trained", exported / "model")
    text = texts_in(exported)
    assert str(tmp_path) not in text
    assert LOCAL_FOLDER in text
    shutil.rmtree(encoder)
    found = saved.load(exported)
    for one, other in zip(found.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("rank", [None, 2], ids=["gpt2", "adapters"])
def test_a_language_model(rank, tmp_path):
    encoder, exported = tmp_path / "of this machine", tmp_path / "export"
    base_in(encoder, gpt2=rank is None)
    changes = {
        "model": {"name": "causal_lm", "encoder": str(encoder)},
        "synthesis.lora_rank": rank,
    }
    result = run_trial(tiny(write_pairs(tmp_path), **changes), tmp_path)
    assert str(tmp_path) not in json.dumps([result.privacy, result.notes], default=str)
    exported.mkdir()
    write_model(tmp_path / "trial" / "model", exported / "model")
    assert str(tmp_path) not in texts_in(exported)
    shutil.rmtree(encoder)
    drawn, _ = models_of(open_trained(exported))
    assert set(drawn) == {"utterances"}
    if rank is not None:
        with refused("no such folder: restore its files"):
            write_model(tmp_path / "trial" / "model", exported / "again")
