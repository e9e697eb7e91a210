"""Table 2: rows are measured once, in the order of the table, and laid out with their factors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sweep import cli
from sweep.bench.contestants import SameBatches, Spec
from sweep.bench.outcome import Found, Times
from sweep.reproduction import table2, timing
from tests.sweep.json_schemas import checked
from tests.sweep.sweeps import settings_in


def measure(spec: Spec) -> Found:
    """Every engine's steps take 1 s, 2 s, 3 s and so on, by its place."""
    return Found(
        times={
            engine: Times(cpu=(float(place), place + 0.2), wall=(1.0, 1.0))
            for place, engine in enumerate(spec.engines, start=1)
        },
        skipped={},
        num_records=2_463,
        steps_per_epoch=39,
    )


def specs(folder: Path, *, steps: int = 10) -> dict[tuple[str, str, int], Spec]:
    described = timing.read().model_copy(update={"workers": (1, 8), "steps": steps})
    return timing.specs(described, ["atis"], ["clc"], settings_in(folder))


def test_the_shipped_table_has_every_corpus_and_number_of_workers(tmp_path: Path) -> None:
    found = timing.read(records=1_000_000)
    assert found.workers == (1, 2, 4, 8)
    assert found.corpora["health"].data["num_utterances"] == 1_000_000
    assert "num_utterances" not in found.corpora["atis"].data
    every = timing.specs(found, list(found.corpora), list(found.models), settings_in(tmp_path))
    assert len(every) == 6 * 2 * 4
    assert len({timing.digest(spec) for spec in every.values()}) == len(every)


def test_an_interrupted_table_goes_on(tmp_path: Path) -> None:
    asked: list[int] = []

    def stopping(spec: Spec) -> Found:
        asked.append(spec.fields["training"]["num_workers"])
        if len(asked) == 2:
            raise KeyboardInterrupt
        return measure(spec)

    wanted = specs(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        timing.run(wanted, tmp_path, measure=stopping, say=lambda _: None)
    assert [row.workers for row in timing.rows(wanted, tmp_path)] == [1]
    timing.run(wanted, tmp_path, measure=stopping, say=lambda _: None)
    assert asked == [1, 8, 8]
    assert [row.workers for row in timing.rows(wanted, tmp_path)] == [1, 8]
    assert timing.rows(specs(tmp_path, steps=5), tmp_path) == []


def test_two_tables_at_a_time_keep_each_other_s_rows(tmp_path: Path) -> None:
    wanted = specs(tmp_path)
    (one, its), (other, theirs) = wanted.items()

    def measured_beside_another(spec: Spec) -> Found:
        timing.run({other: theirs}, tmp_path, measure=measure, say=lambda _: None)
        return measure(spec)

    timing.run({one: its}, tmp_path, measure=measured_beside_another, say=lambda _: None)
    assert [row.workers for row in timing.rows(wanted, tmp_path)] == [1, 8]


def test_workers_that_cannot_share_the_batch_are_refused_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SWEEP_HOME", str(tmp_path))
    command = ["reproduce", "table2", "--data", "communication", "--workers", "1"]
    assert cli.run([*command, "--workers", "3"]) == 2
    assert "expected --workers to divide a batch of 64, got 3" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_the_layout(tmp_path: Path) -> None:
    wanted = specs(tmp_path)
    timing.run(wanted, tmp_path, measure=measure, say=lambda _: None)
    found = timing.rows(wanted, tmp_path)
    lines = table2.markdown(timing.read(), found).splitlines()
    assert (
        "| atis | clc | 2,463 | 8 | 42.9 ± 5.5 | 81.9 ± 5.5 | 1.92 (1.88 to 1.96)"
        " | 121 ± 6 | 2.83 (2.75 to 2.92) |"
    ) in lines
    assert table2.csv_text(found).count("\n") == 1 + 2 * 3


@pytest.mark.parametrize("workers", [1, 4, 8])
def test_logical_workers_share_a_batch(workers: int) -> None:
    batch = np.arange(100, 164)
    own = SameBatches([batch], per_record=False, num_workers=workers).draw(0, 0)
    assert own.sizes.tolist() == [64 // workers] * workers
    assert own.worker.tolist() == list(range(workers))
    alone = SameBatches([batch], per_record=True, num_workers=workers).draw(0, 0)
    assert alone.sizes.tolist() == [1] * 64
    assert np.bincount(alone.worker).tolist() == [64 // workers] * workers


def test_rows_of_an_earlier_command_stay_in_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SWEEP_HOME", str(tmp_path))
    monkeypatch.setattr("sweep.bench.rounds.rounds", lambda spec, **_: measure(spec))
    command = ["reproduce", "table2", "--model", "clc", "--json"]
    for corpus, workers in (("health", "16"), ("video", "2")):
        capsys.readouterr()
        assert cli.run([*command, "--data", corpus, "--workers", workers]) == 0
    assert {row["corpus"] for row in json.loads(capsys.readouterr().out)["rows"]} == {"video"}
    lines = (tmp_path / "reproduction" / "table2.csv").read_text().splitlines()[1:]
    found = {tuple(line.split(",")[:3]) for line in lines}
    assert found == {("health", "clc", "16"), ("video", "clc", "2")}


def test_show_prints_what_there_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = settings_in(tmp_path)
    described = timing.read()
    wanted = timing.specs(described, ["atis"], ["clc"], settings)
    timing.run(wanted, tmp_path / "out", measure=measure, say=lambda _: None)
    arguments = ["reproduce", "table2", "--show", "--data", "atis", "--model", "clc"]
    assert cli.run([*arguments, "--output", str(tmp_path / "out"), "--json"]) == 0
    document = checked("reproduce table2", capsys.readouterr().out)
    assert len(document["rows"]) == 4 * 3
    assert cli.run(["reproduce", "table2", "--data", "atos"]) == 2
    assert "--data" in capsys.readouterr().err
