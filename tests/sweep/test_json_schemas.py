"""What `--json` prints is what `_schemas.yaml` says, and every such document is in
it.
"""

import json
import math
import re
from pathlib import Path

import yaml

from sweep import commands
from sweep.commands import _output, _schemas
from tests.lines import write_lines
from tests.sweep.json_schemas import problems
from tests.sweep.sweeps import space_in
from tests.sweep.untracked import run_untracked


def test_every_document_has_a_schema():
    sources = (path.read_text() for path in Path(commands.__path__[0]).glob("*.py"))
    printed = re.findall(r"(?<!def )print_json\(\s*(.*?),", " ".join(sources))
    assert {name.strip('"') for name in printed} == {*_schemas.names()}
    for name in _schemas.names():
        each = _schemas.schema(name)
        assert each.version >= 1
        assert each.about.endswith(".")


def test_a_figure_that_is_no_number_is_null(capsys):
    """It was no JSON, which ended the command in a traceback."""
    _output.print_json(
        "report", {"epsilon_max": math.inf, "metrics": {"loss": math.nan}}
    )
    shown = json.loads(capsys.readouterr().out)
    assert (shown["epsilon_max"], shown["metrics"]) == ("inf", {"loss": None})


def test_documents_about_sweeps(line, place):
    answer = line.document
    folder = run_untracked(place)
    document = space_in(place).document()
    (place / "space.yaml").write_text(yaml.safe_dump(document))
    assert answer("plan", "space.yaml")["num_trials"] == 3
    assert answer("show", "toy")["trials"][0]["status"] == "done"
    assert answer("list")["sweeps"][0]["trials"] == {"done": 3}
    first, second = (trial.id for trial in folder.plan().trials[:2])
    assert "ser" in answer("compare", f"toy:{first}", f"toy:{second}")["figures"]
    assert answer("ledger")["datasets"]
    assert answer("ledger --check") == {"missing": [], "left": []}
    assert answer("export", "toy", "--any-epsilon")["epsilons"][0] > 0
    assert answer("report", "toy")["bytes"] > 0


def test_documents_about_data_and_fields(line, place):
    answer = line.document
    space_in(place)  # writes the corpus
    assert {each["path"][:7] for each in answer("fields", "privacy")["fields"]} == {
        "privacy"
    }
    assert answer("data list")["corpora"]
    assert answer("data describe", "mine.jsonl")["num_records"] > 0
    made = ("communication", "--set", "num_utterances=1000")
    assert answer("data describe", *made)["num_training"] == 450
    assert answer("data check", "mine.jsonl")["ok"]
    assert answer("data convert", "mine.jsonl", "--to", "new.jsonl")["num_invalid"] == 0
    assert answer("ui --write-dashboards", "grafana")["written"]
    scores = [{"score": n % 7, "member": bool(n % 2)} for n in range(40)]
    write_lines(place / "scores.jsonl", scores)
    assert 0 < answer("attack", "--scores", "scores.jsonl")["auc"] < 1


def test_a_field_that_is_missing_new_or_of_another_type_is_found():
    schema = _schemas.schema("data convert")
    right = {"path": "a", "num_records": 1, "num_invalid": 0, "reading": {}}
    assert problems(schema, right) == []
    for wrong in (
        {"num_records": 1.0},
        {"num_records": "inf"},
        {"more": 1},
        {"path": None},
    ):
        assert problems(schema, right | wrong), wrong
    del right["path"]
    assert problems(schema, right)
