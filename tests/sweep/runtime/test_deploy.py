"""The deployment files have only fields that Ray and KubeRay know."""

import json
import shlex
from importlib import resources
from pathlib import Path

import jsonschema
import pytest
import yaml

from search_spaces.files import shipped_spaces

DEPLOY = Path(str(resources.files("sweep"))) / "deploy"
# Fields of the CRD rayjobs.ray.io, version v1 (KubeRay 1.5.1), by their parent.
RAY_JOB = {
    "": {"apiVersion", "kind", "metadata", "spec"},
    "spec": {
        *("activeDeadlineSeconds", "backoffLimit", "clusterSelector", "deletionPolicy"),
        *("entrypoint", "entrypointNumCpus", "entrypointNumGpus", "entrypointResources", "jobId"),
        *("managedBy", "metadata", "rayClusterSpec", "runtimeEnvYAML", "shutdownAfterJobFinishes"),
        *("submissionMode", "submitterConfig", "submitterPodTemplate", "suspend"),
        *("ttlSecondsAfterFinished",),
    },
    "rayClusterSpec": {
        *("authOptions", "autoscalerOptions", "enableInTreeAutoscaling"),
        *("gcsFaultToleranceOptions",),
        *("headGroupSpec", "headServiceAnnotations", "managedBy", "rayVersion", "suspend"),
        *("workerGroupSpecs",),
    },
    "headGroupSpec": {"enableIngress", "headService", "rayStartParams", "serviceType", "template"},
    "workerGroupSpecs": {
        *("groupName", "idleTimeoutSeconds", "maxReplicas", "minReplicas", "numOfHosts"),
        *("rayStartParams", "replicas", "scaleStrategy", "suspend", "template"),
    },
}


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


def test_the_rayjob_has_no_field_that_kuberay_does_not_know():
    job = read("rayjob.yaml")
    spec = job["spec"]
    cluster = spec["rayClusterSpec"]
    parts = {
        "": job,
        "spec": spec,
        "rayClusterSpec": cluster,
        "headGroupSpec": cluster["headGroupSpec"],
        "workerGroupSpecs": cluster["workerGroupSpecs"][0],
    }
    for name, part in parts.items():
        assert set(part) <= RAY_JOB[name], f"{name}: {set(part) - RAY_JOB[name]}"
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    values = cluster["headGroupSpec"]["rayStartParams"].values()
    assert all(isinstance(value, str) for value in values), "KubeRay takes text alone"


def test_every_pod_has_the_storage_the_images_ray_and_the_settings():
    cluster = read("rayjob.yaml")["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    for group in groups:
        pod = group["template"]["spec"]
        (container,) = pod["containers"]
        home = {e["name"]: e["value"] for e in container["env"]}["SWEEP_HOME"]
        mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
        assert any(home.startswith(mount) for mount in mounts)
        assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
    assert cluster["rayVersion"] == "2.60.0", "the version that constraints.txt pins"
    assert cluster["authOptions"] == {"mode": "token"}, "as in the other recipes of a cluster"


def test_the_rayjob_runs_a_shipped_space_and_resumes_it():
    _, _, script = shlex.split(read("rayjob.yaml")["spec"]["entrypoint"])
    resumed, run = (shlex.split(part) for part in script.split("||"))
    assert resumed[:2] == ["sweep", "resume"]
    assert run[:2] == ["sweep", "run"]
    assert run[2] in shipped_spaces()
    assert run[run.index("--name") + 1] == resumed[2]
