"""The README of an export: what it tells to run runs."""

import textwrap

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
