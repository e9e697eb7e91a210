"""The wheel has the files of the repository's packages, and runs without a checkout."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.tiny_space import write_tiny_space

ROOT = Path(__file__).resolve().parents[2]
HOUSES = ("sweep", "trainables", "search_spaces", "dashboards")
# What a run reads beside Python: one file of each kind that would be missed.
NEEDED = {
    "dashboards/grafana.json",
    "dashboards/templates/report.html.j2",
    "search_spaces/quick.yaml",
    "sweep/imports/space.yaml.template",
    "sweep/imports/space_covers_all.yaml.template",
    "trainables/data/schemas/atis.json",
    "trainables/models/encoders/shipped/dialogues/learnt.npy",
    "trainables/models/encoders/shipped/dialogues/model.safetensors",
    "trainables/dp/layers/_gram.c",
    "trainables/pretraining/texts/snips.txt",
    *(f"{package}/py.typed" for package in HOUSES),
}


def wheel_of(source, folder):
    """The wheel that is built from `source`, in `folder`."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--disable-pip-version-check",
    ]
    command += [
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(folder),
        str(source),
    ]
    subprocess.run(command, check=True, cwd=folder)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return wheel_of(ROOT, tmp_path_factory.mktemp("wheel"))


def test_it_holds_every_file_of_the_packages_and_no_other(wheel):
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *HOUSES],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    there = {name for name in listed if (ROOT / name).exists()}
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert inside == there
    assert inside >= NEEDED


@pytest.fixture
def installed(wheel, tmp_path):
    """The `sweep` of a new virtual environment, in an empty folder and with an empty
    home.

    The dependencies are those of this environment; its packages come after the wheel's.
    """
    venv.create(tmp_path / "venv", with_pip=False)
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    python = tmp_path / "venv" / "bin" / "python"
    command = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--quiet",
    ]
    subprocess.run(
        [*command, "--disable-pip-version-check", "--no-deps", str(wheel)], check=True
    )
    for name in ("empty", "home"):
        (tmp_path / name).mkdir()
    environment = {
        "PATH": os.defpath,
        "HOME": str(tmp_path / "home"),
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }

    def run(*arguments):
        done = subprocess.run(
            [str(python.with_name("sweep")), *arguments],
            cwd=tmp_path / "empty", env=environment, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.slow  # starts Ray and trains
def test_it_runs_in_an_empty_folder(installed, tmp_path):
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    before = sorted(site.rglob("*"))
    assert installed("--version").startswith("sweep 0.")
    assert "dp-heads" in installed("plan", "quick")
    assert "--write-dashboards" in installed("ui", "--help")
    write_tiny_space(
        tmp_path / "empty" / "tiny.yaml", epochs=1, attacks=["loss_threshold"]
    )
    assert "epsilon" in installed("run", "tiny.yaml", "--export", "--epsilon-max", "8")
    exported = tmp_path / "empty" / "sweeps" / "tiny"
    first = (exported / "sweep.jsonl").read_text().splitlines()[0]
    assert yaml.safe_load(first)["about"]["git_commit"] is None
    assert "report.html" in installed("report", "tiny")
    assert "grafana.json" in installed("ui", "--write-dashboards", "grafana")
    assert sorted(site.rglob("*")) == before, "nothing is written beside the code"
    assert list((tmp_path / "home" / ".cache" / "dp-nlu-sweep").glob("*.so")), (
        "C is compiled"
    )
