"""What commands refuse, and in which words: a golden file a command, in `refusals/`."""

import shlex
from pathlib import Path

import pytest
import yaml

CASES = [
    pytest.param(case, id=f"{file.stem}-{number}")
    for file in sorted(Path(__file__).with_name("refusals").glob("*.yaml"))
    for number, case in enumerate(yaml.safe_load(file.read_text()))
]


@pytest.mark.parametrize("case", CASES)
def test_a_refusal_is_one_line_that_quotes_no_record_and_leaves_nothing(
    case, line, tmp_path, monkeypatch
):
    for variable, folder in (("SWEEP_HOME", "home"), ("SWEEP_DATA_DIR", ".")):
        monkeypatch.setenv(variable, str(tmp_path / folder))
    monkeypatch.chdir(tmp_path)
    for name, text in case.get("files", {}).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    said = line.refused(*shlex.split(case["line"]))
    assert case["says"] in said
    assert "xylophone" not in said
    left = {
        str(path.relative_to(tmp_path))
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    left = {name for name in left if not name.startswith("home/cache/")}
    assert left == {*case.get("files", {})}
