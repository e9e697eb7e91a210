"""Files about the project agree with each other: version, checks, workflow."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def read(name):
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


def test_one_version_is_named():
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert read("CITATION.cff")["version"] == PROJECT["version"] == newest[1]


def test_the_hooks_of_a_commit_are_the_checks_of_make():
    recipe = (ROOT / "Makefile").read_text().split("\ncheck:")[1].split("\n\n")[0]
    checks = set(re.findall(r"\$\(BIN\)/([a-z-]+(?: [a-z]+)?)", recipe))
    (local,) = read(".pre-commit-config.yaml")["repos"]
    entries = [hook["entry"].removeprefix(".venv/bin/") for hook in local["hooks"]]
    assert {re.match(r"[a-z-]+(?: [a-z]+)?", entry)[0] for entry in entries} == checks


def test_the_workflow_runs_the_script_on_every_python():
    job = read(".github/workflows/ci.yml")["jobs"]["checks-and-tests"]
    least = PROJECT["requires-python"].removeprefix(">=")
    assert job["strategy"]["matrix"]["python"] == [least, "3.12", "3.13"]
    scripts = [step["run"] for step in job["steps"] if "run" in step]
    assert scripts == ["bash .ci/run"]
    # The Makefile takes the Python that the workflow names, not one of the machine.
    made = subprocess.run(
        ["make", "--dry-run", "--always-make", "VENV=new", "check"],
        cwd=ROOT, env={"PATH": "/usr/bin:/bin", "PYTHON": sys.executable},
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert f"{sys.executable} -m venv new" in made


def test_types_are_published():
    for package in ("trainables", "sweep", "search_spaces", "dashboards"):
        assert (ROOT / package / "py.typed").is_file(), package
