"""A shell completes commands and the values of their options."""

import pytest

from sweep import cli

LINES = {"sweep re": {"report", "resume"}, "sweep run quick --tracking ml": {"mlflow"}}


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_completed(line, monkeypatch, capsys):
    """As the script that a shell runs asks for it."""
    monkeypatch.setenv("_SWEEP_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    with pytest.raises(SystemExit):
        cli.build()(args=[], prog_name="sweep")
    assert set(capsys.readouterr().out.split()) == LINES[line]
