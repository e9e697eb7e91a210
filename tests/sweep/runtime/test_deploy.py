"""The deployment file has only fields that Ray knows."""

import json
from importlib import resources
from pathlib import Path

import jsonschema
import pytest
import yaml

DEPLOY = Path(str(resources.files("sweep"))) / "deploy"


def read(name):
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


def test_the_ray_cluster_file_is_one_by_rays_own_schema():
    schema = json.loads((resources.files("ray") / "autoscaler" / "ray-schema.json").read_text())
    document = read("ray_cluster.yaml")
    jsonschema.validate(document, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "max_worker": 2}, schema)
    commands = document["head_start_ray_commands"] + document["worker_start_ray_commands"]
    assert all("ray stop" in line or "SWEEP_HOME=" in line for line in commands)
    assert all("ray stop" in line or "RAY_AUTH_MODE=token" in line for line in commands)


def test_ray_starts_the_workers_of_the_ray_cluster_file(monkeypatch):
    """By Ray's own check: without the option its head never starts another node."""
    from ray.autoscaler._private import commands

    warnings = []
    monkeypatch.setattr(
        commands.cli_logger, "warning", lambda text, *_, **__: warnings.append(text)
    )
    given = read("ray_cluster.yaml")["head_start_ray_commands"]
    commands.warn_about_bad_start_command(given)
    assert warnings == []
    without = [line.replace("--autoscaling-config=", "--") for line in given]
    commands.warn_about_bad_start_command(without)
    assert len(warnings) == 1
