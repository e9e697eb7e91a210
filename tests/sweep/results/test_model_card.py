"""The README of an export and the guide to serving: what they tell to run runs."""

import re
import textwrap
from pathlib import Path

import pytest
from fastapi import HTTPException

from sweep.results.export import export_trial
from sweep.results.model_card import EXAMPLE
from tests.sweep.neighbours import corpus, nlu_home


def test_the_snippet_of_the_page_predicts_and_its_example_is_no_record(
    tmp_path, monkeypatch, capsys
):
    rows = corpus()
    home = nlu_home(tmp_path / "home", rows, unit="record", engine="edp_sgd")
    [record] = home.records()
    exported = export_trial(home, record, tmp_path / "export")
    use = (exported / "README.md").read_text().partition("## Use\n\n")[2]
    snippet = use[: use.index("in this folder")]
    monkeypatch.chdir(exported)
    capsys.readouterr()
    exec(compile(textwrap.dedent(snippet), "README.md", "exec"), {})
    assert capsys.readouterr().out.strip() in {row["intent"] for row in rows}
    assert EXAMPLE in snippet
    words = {word for row in rows for word in row["tokens"]}
    assert not words & {*EXAMPLE.split()}


def test_the_application_of_the_guide_answers(tmp_path, monkeypatch):
    rows = corpus()
    home = nlu_home(tmp_path / "home", rows, unit="record", engine="edp_sgd")
    [record] = home.records()
    export_trial(home, record, tmp_path / "best")
    guide = Path(__file__).parents[3] / "docs/guides/serving.md"
    [application] = re.findall(r"```python\n(.*?)```", guide.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(application, "app.py", "exec"), names)
    [answer] = names["parse"](["call ann now"])
    assert answer["intent"] in {row["intent"] for row in rows}
    with pytest.raises(HTTPException, match="at least one word"):
        names["parse"]([""])
