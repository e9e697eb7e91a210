"""Readers of the files that each tracker has written of a sweep."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweep.settings import Settings


@dataclass
class Seen:
    """A trial as a tracker has it; `epochs` has every figure by step, each once."""

    status: str = ""
    epochs: dict[int, dict[str, float]] = field(default_factory=dict)
    final: dict[str, float] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    host: str = ""

    def add(self, name: str, step: int, value: float) -> None:
        """Raises: AssertionError for a figure that is there already."""
        figures = self.epochs.setdefault(step, {})
        assert name not in figures, f"{name} twice at {step}"
        figures[name] = value


def _plain_key(key: str) -> str:
    """A metric's key without the group that MLflow's charts are sorted by.

    >>> _plain_key("validation/ser"), _plain_key("test/ser"), _plain_key("curator_only/leakage")
    ('validation_ser', 'ser', 'curator_only/leakage')
    """
    group, _, name = key.rpartition("/")
    if group in ("best", "validation"):
        return f"{group}_{name}"
    return name if group in ("test", "privacy", "time", "sweep") else key


def mlflow(settings: Settings, sweep: str) -> dict[str, Seen]:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=settings.tracking_uri)
    experiment = client.get_experiment_by_name("sweeps")
    found = {}
    for run in client.search_runs([experiment.experiment_id]):
        if run.data.tags.get("sweep") != sweep or not run.data.tags.get("trial"):
            continue
        seen = found[run.data.tags["trial"]] = Seen(
            status=run.data.tags["status"],
            final={_plain_key(name): value for name, value in run.data.metrics.items()},
            params=run.data.params,
        )
        for name in run.data.metrics:
            for metric in client.get_metric_history(run.info.run_id, name):
                seen.add(_plain_key(name), metric.step, metric.value)
    return found


def tensorboard(settings: Settings, sweep: str) -> dict[str, Seen]:
    found = {}
    for folder in (settings.home / "tensorboard" / sweep).glob("*/"):
        seen = found[folder.name.rpartition("-")[2]] = Seen()
        for event in (e for path in folder.glob("events.*") for e in _events(path)):
            for value in event.summary.value:
                plugin = value.metadata.plugin_data
                if plugin.plugin_name == "hparams":
                    seen.params |= _hyperparameters(plugin.content)
                elif value.tag.startswith("status"):
                    seen.status = value.tensor.string_val[0].decode()
                elif value.HasField("simple_value"):
                    seen.add(value.tag, event.step, value.simple_value)
                    seen.final[value.tag] = value.simple_value
    return found


def _events(path: Path) -> Iterator[Any]:
    """Records of an event file: length (8 bytes), its checksum (4), an Event, its checksum (4)."""
    from tensorboardX.proto.event_pb2 import Event

    data, place = path.read_bytes(), 0
    while place < len(data):
        (length,) = struct.unpack_from("<Q", data, place)
        yield Event.FromString(data[place + 12 : place + 12 + length])
        place += 16 + length


def _hyperparameters(content: bytes) -> dict[str, str]:
    from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData

    known = HParamsPluginData.FromString(content).session_start_info.hparams
    return {name: str(getattr(each, each.WhichOneof("kind"))) for name, each in known.items()}


def wandb(settings: Settings, sweep: str) -> dict[str, Seen]:
    from wandb.proto.wandb_internal_pb2 import Record

    found = {}
    for path in (settings.home / "wandb" / sweep).glob("wandb/offline-run-*/*.wandb"):
        seen = Seen()
        for data in _log_records(path):
            record = Record.FromString(data)
            if record.HasField("run"):
                trial = record.run.run_id.partition("-")[2]
                assert trial not in found, f"{trial} twice"
                found[trial] = seen
                seen.host = record.run.host
                seen.params |= {e.key: json.loads(e.value_json) for e in record.run.config.update}
            elif record.HasField("history"):
                row = {_key(item): json.loads(item.value_json) for item in record.history.item}
                for name, value in row.items():
                    if not name.startswith("_"):
                        seen.add(name, row["_step"], value)
            elif record.HasField("summary"):
                row = {_key(item): json.loads(item.value_json) for item in record.summary.update}
                seen.status = row.pop("status", seen.status)
                seen.final |= {n: v for n, v in row.items() if not n.startswith("_")}
    return found


def _log_records(path: Path) -> Iterator[bytes]:
    """Records of a file in LevelDB's log format behind a header of 7 bytes: in blocks of 32 KiB,
    each part of a record with checksum (4 bytes), length (2) and type (1: whole, 2, 3, 4: its
    first, middle and last part).
    """
    data, place, record = path.read_bytes(), 7, b""
    while place + 7 <= len(data):
        if 32_768 - place % 32_768 < 7:
            place += 32_768 - place % 32_768
            continue
        length, kind = struct.unpack_from("<HB", data, place + 4)
        record += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):
            yield record
            record = b""


def _key(item: Any) -> str:
    return item.key or ".".join(item.nested_key)


Reader = Callable[[Settings, str], dict[str, Seen]]
READERS: dict[str, Reader] = {"mlflow": mlflow, "tensorboard": tensorboard, "wandb": wandb}
