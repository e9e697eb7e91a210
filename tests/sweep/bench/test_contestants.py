"""The engines of a benchmark: equal records in every step, in units that add up, timed in turns."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.bench import stock
from sweep.bench.contestants import ENGINES, Arena, SameBatches, SkippedEngine, Spec
from sweep.bench.measure import measure
from sweep.bench.rounds import rounds
from tests.sweep.sweeps import write_corpus
from trainables import catalogue
from trainables.errors import InvalidInput
from trainables.system.communication import Alone

_TINY = {"word_buckets": 16, "word_dim": 4, "char_dim": 2, "char_filters": 2, "hidden_size": 4}


def spec(folder: Path, **changes: Any) -> Spec:
    """A benchmark of a tiny CLC on 90 training records, in batches of six."""
    fields = {
        "data": write_corpus(folder),
        "model": {"name": "clc", **_TINY, "num_layers": 1},
        "training": {"expected_batch_size": 6, "epochs": 1000, **changes.pop("training", {})},
    }
    given_fields = {**fields, **changes.pop("fields", {})}
    return Spec(fields=given_fields, data_dir=folder, cache_dir=folder / "cache", **changes)


@given(size=st.integers(1, 40), workers=st.integers(1, 8), per_record=st.booleans())
def test_every_record_of_a_step_is_in_one_unit_of_one_worker(
    size: int, workers: int, per_record: bool
) -> None:
    records = np.arange(100, 100 + size * workers)
    draw = SameBatches([records], per_record=per_record, num_workers=workers).draw(0, 3)
    np.testing.assert_array_equal(draw.records, records)
    assert draw.num_drawn == len(records)
    assert len(draw.unit) == len(records)
    assert draw.sizes.sum() == len(records)
    np.testing.assert_array_equal(np.bincount(draw.unit), draw.sizes)
    assert len(draw.worker) == len(draw.sizes), "each unit has a worker"
    of_worker = draw.sizes[draw.worker == 0].sum()
    assert of_worker == size, "workers have equal shares"
    assert set(draw.sizes) == ({1} if per_record else {size})


def test_the_batches_come_again_in_their_order() -> None:
    batches = [np.array([n, n + 10]) for n in range(3)]
    sampler = SameBatches(batches, per_record=True)
    found = [sampler.draw(epoch, step).records[0] for epoch, step in ((0, 0), (5, 2), (1, 4))]
    assert found == [0, 2, 1]


def test_all_engines_of_all_processes_have_the_same_batches(tmp_path: Path) -> None:
    one, again = Arena(spec(tmp_path)), Arena(spec(tmp_path))
    for mine, theirs in zip(one.batches, again.batches, strict=True):
        np.testing.assert_array_equal(mine, theirs)
        assert len(set(mine)) == 6
    assert one.num_records == 90
    assert one.steps_per_epoch == 15
    np.testing.assert_array_equal(one.records_of(3), one.records_of(3 + len(one.batches)))
    assert len(np.unique(np.concatenate(one.batches))) > 60, "they are not one batch"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"workers": 4}, "expected --batch-size to be a multiple of --workers 4, got 6"),
        ({"fields": {"model": {"name": "features"}}}, "expected --model to be one of clc, bert"),
        ({"training": {"expected_batch_size": 0}}, "expected_batch_size"),
        (
            {"training": {"expected_batch_size": 91}},
            "expected --batch-size to be at most the 90 training records, got 91",
        ),
    ],
)
def test_a_benchmark_that_cannot_be_is_refused_before_its_first_step(
    tmp_path: Path, changes: dict[str, Any], line: str
) -> None:
    with pytest.raises(InvalidInput, match=line):
        Arena(spec(tmp_path, **changes))


def test_every_engine_that_trains_is_on_the_list_and_no_other() -> None:
    """The command measures all of them where none is named."""
    names = catalogue.names("engines")
    trained = [name for name in names if catalogue.kind_of("engines", name) != "prior"]
    assert sorted(ENGINES) == sorted(["stock", "naive", *trained])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_step_changes_the_weights_and_the_next_one_again(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is timed is training, of every engine on the list."""
    arena = Arena(spec(tmp_path))
    models: list[Any] = []
    model_of, build = arena.model_of, stock.build

    def keep_model(config: Any) -> Any:
        model, loader = model_of(config)
        models.append(model)
        return model, loader

    def keep_stock(*given: Any) -> Any:
        models.append(build(*given))
        return models[-1]

    monkeypatch.setattr(arena, "model_of", keep_model)
    monkeypatch.setattr(stock, "build", keep_stock)
    step = arena.step_of(engine)
    seen = [_size(models[-1])]
    for number in range(2):
        step(number)
        seen.append(_size(models[-1]))
    assert len(set(seen)) == 3


def _size(model: Any) -> float:
    """The sum of all absolute weights, which no step leaves as it was."""
    return float(sum(p.detach().double().abs().sum() for p in model.parameters()))


def test_what_takes_one_worker_is_skipped_with_its_reason(tmp_path: Path) -> None:
    arena = Arena(spec(tmp_path, workers=2))
    with pytest.raises(SkippedEngine, match=r"^measured with --workers 1 only$"):
        arena.step_of("naive")


class Turns:
    """An arena whose engines note their steps; `skipped` cannot run."""

    comm = Alone()
    num_records, steps_per_epoch = 90, 15

    def __init__(self, *, skipped: str = "") -> None:
        self.steps: list[tuple[str, int]] = []
        self._skipped = skipped

    def step_of(self, engine: str) -> Any:
        if engine == self._skipped:
            raise SkippedEngine("not here")
        return lambda number: self.steps.append((engine, number))


def play(arena: Turns, **settings: Any) -> Any:
    made = SimpleNamespace(**{"engines": ("a", "b"), "repeats": 3, "seconds": 60.0, **settings})
    return rounds(cast(Any, made), say=lambda _: None, arena=cast(Any, arena))


def test_engines_take_turns_and_the_first_two_rounds_are_not_counted() -> None:
    arena = Turns()
    found = play(arena)
    assert arena.steps == [(engine, number) for number in range(5) for engine in ("a", "b")]
    assert {name: len(times.cpu) for name, times in found.times.items()} == {"a": 3, "b": 3}
    assert all(len(times.wall) == 3 for times in found.times.values())


def test_a_slow_engine_has_two_measured_steps_and_then_sits_out() -> None:
    """And only one round of warm-up."""
    arena = Turns()
    found = play(arena, seconds=-1.0)
    assert [number for engine, number in arena.steps if engine == "a"] == [0, 2, 3]
    assert len(found.times["a"].cpu) == 2


def test_an_engine_that_cannot_run_stops_no_other() -> None:
    arena = Turns(skipped="a")
    found = play(arena)
    assert found.skipped == {"a": "not here"}
    assert list(found.times) == ["b"]
    assert len(arena.steps) == 5


def test_a_team_gets_the_times_of_its_slowest_process() -> None:
    class Slower(Alone):
        def gather(self, value: Any) -> Any:
            return [value, (1.0, 2.0)]

    arena = Turns()
    arena.comm = Slower()
    found = play(arena)
    assert found.times["a"].cpu == (1.0, 1.0, 1.0)
    assert found.times["a"].wall == (2.0, 2.0, 2.0)


def test_a_measurement_has_a_row_for_every_engine_that_was_asked_for(tmp_path: Path) -> None:
    heard: list[str] = []
    asked = spec(tmp_path, engines=("stock", "sgd"), repeats=1)
    outcome = measure(asked, say=heard.append, memory=False)
    assert [row.engine for row in outcome.rows] == ["stock", "sgd"]
    assert (outcome.data, outcome.model, outcome.batch_size) == ("json_lines", "clc", 6)
    assert (outcome.num_records, outcome.steps_per_epoch, outcome.idle_mib) == (90, 15, None)
    assert all(row.steps == 1 and row.peak_mib is None for row in outcome.rows)
    assert outcome.rows[1].x_sgd == 1.0
    assert heard[0] == "step 1 of 3: stock"
    assert not any(line.startswith("memory") for line in heard)


def test_what_the_benchmark_of_opacus_overrides_exists() -> None:
    """Opacus is no dependency, so that script is read and not run."""
    script = Path(__file__).parents[3] / "benchmarks/opacus_steps.py"
    own = {
        (base.id, method.name)
        for made in ast.parse(script.read_text(encoding="utf-8")).body
        if isinstance(made, ast.ClassDef)
        for base in made.bases
        if isinstance(base, ast.Name) and hasattr(stock, base.id)
        for method in made.body
        if isinstance(method, ast.FunctionDef)
    }
    assert {base for base, _ in own} == {"StockClc", "StockBert"}
    assert {(base, name) for base, name in own if not hasattr(getattr(stock, base), name)} == set()
