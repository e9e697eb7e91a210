"""The Dockerfile copies what there is, and what it copies is enough. No Docker is
needed here.
"""

import json
import re
import shlex
import shutil
import tomllib
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import typer
import yaml

from sweep.cli import build
from sweep.settings import from_environment
from tests.packaging.test_wheel import wheel_of

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "sweep" / "deploy"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def instructions(text):
    """(keyword, the rest) of each instruction, continued lines joined, comments left
    out.
    """
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [
        (keyword, rest)
        for keyword, _, rest in (
            line.partition(" ") for line in joined.splitlines() if line
        )
    ]


FOUND = instructions((DEPLOY / "Dockerfile").read_text())


def copy_sources():
    """Sources of COPY from the repository."""
    words = [shlex.split(rest) for keyword, rest in FOUND if keyword == "COPY"]
    return [
        source for each in words if not each[0].startswith("--") for source in each[:-1]
    ]


def arguments():
    """Defaults of the build's arguments."""
    pairs = (rest.partition("=") for keyword, rest in FOUND if keyword == "ARG")
    return {name: value.strip('"') for name, _, value in pairs}


def test_every_source_of_a_copy_is_there_and_is_sent_to_the_build():
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    kept = {line[1:] for line in ignored if line.startswith("!")}
    assert "*" in ignored
    assert set(copy_sources()) == kept
    assert [source for source in copy_sources() if not (ROOT / source).exists()] == []


def test_what_it_copies_makes_the_wheel(tmp_path):
    """The first stage, without Docker."""
    source = tmp_path / "source"
    source.mkdir()
    for name in copy_sources():
        place = ROOT / name
        if place.is_dir():
            shutil.copytree(
                place, source / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(place, source / name)
    with zipfile.ZipFile(wheel_of(source, tmp_path)) as archive:
        names = archive.namelist()
    for needed in (
        "sweep/cli.py",
        "search_spaces/quick.yaml",
        "sweep/deploy/Dockerfile",
    ):
        assert needed in names


def test_versions_are_those_of_the_project():
    given = arguments()
    assert (
        f"torch=={given['TORCH_VERSION']}"
        in (ROOT / "constraints.txt").read_text().split()
    )
    least = PROJECT["requires-python"].removeprefix(">=").split(".")
    assert [int(part) for part in given["PYTHON_VERSION"].split(".")] >= [
        int(p) for p in least
    ]
    bases = [rest for keyword, rest in FOUND if keyword == "FROM"]
    assert all(fnmatch(base, "python:${PYTHON_VERSION}-slim-*") for base in bases)


def test_it_runs_the_command_of_the_project_as_no_root():
    (entry,) = (json.loads(rest) for keyword, rest in FOUND if keyword == "ENTRYPOINT")
    assert entry[0] in PROJECT["scripts"]
    keywords = [keyword for keyword, _ in FOUND]
    assert keywords.index("USER") < keywords.index("ENTRYPOINT")
    assert "root" not in dict(FOUND)["USER"]


def test_what_it_sets_is_read():
    (words,) = (shlex.split(rest) for keyword, rest in FOUND if keyword == "ENV")
    settings = from_environment(dict(word.split("=") for word in words))
    for place in (settings.home, settings.data_dir):
        assert place.is_relative_to(dict(FOUND)["VOLUME"])


def test_the_job_of_kuberay_has_the_project_s_ray_and_its_commands_exist():
    """Its form was held against the operator's own schema by hand; it has never run."""
    job = yaml.safe_load((DEPLOY / "rayjob.yaml").read_text())["spec"]
    version = job["rayClusterSpec"]["rayVersion"]
    assert f"ray=={version}" in (ROOT / "constraints.txt").read_text().split()
    nodes = [job["rayClusterSpec"]["headGroupSpec"]]
    nodes += job["rayClusterSpec"]["workerGroupSpecs"]
    for node in nodes:
        [container] = node["template"]["spec"]["containers"]
        [mount] = container["volumeMounts"]
        assert mount["mountPath"] == dict(FOUND)["VOLUME"]
    shell, option, script = shlex.split(job["entrypoint"])
    assert (shell, option) == ("sh", "-c")
    commands = re.findall(r"exec sweep (\w+) ([^;]+)", script)
    assert [command for command, _ in commands] == ["resume", "run"]
    app = typer.main.get_command(build())
    for name, rest in commands:
        command = app.commands[name]
        words = shlex.split(rest.replace("$RAY_ADDRESS", "head:6379"))
        given = command.make_context(name, words).params
        assert (given["address"], given["name"]) == ("head:6379", "quick")
