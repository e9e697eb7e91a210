"""The packing of trials on a machine: processes and slots."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces import space as spaces
from search_spaces.parts import Resources
from sweep.planning import cost, prepare
from sweep.planning.footprints import Footprints
from sweep.planning.pack_trials import packing_for, sentence
from sweep.planning.packing import Packing, pack
from sweep.planning.resources import Machine, Share, choose_slots
from tests.sweep.sweeps import settings_in, space_in
from trainables.config import parse
from trainables.errors import InvalidInput
from trainables.system.footprint import Footprint

GIB = 2**30
SMALL = Footprint(
    seconds_prepare=1, seconds_step=0.01, seconds_after_epoch=1, seconds_at_end=1,
    memory_bytes=GIB,
)  # fmt: skip
CPUS = Machine(cpus=8, memory_bytes=32 * GIB)
GPUS = Machine(cpus=32, memory_bytes=256 * GIB, gpus=2)


def test_many_trials_are_packed_and_few_are_spread() -> None:
    def workers(trials: int) -> int | None:
        packed = pack(Resources(workers="auto"), logical=4, trials=trials, machine=CPUS)
        return packed.workers

    assert workers(20) == 1  # eight at a time, one process each
    assert workers(8) == 1
    assert workers(4) == 2
    assert workers(2) == workers(1) == 4


@given(
    logical=st.integers(1, 12),
    trials=st.integers(1, 40),
    cpus=st.integers(1, 16),
    memory=st.integers(1, 64),
)
def test_what_is_chosen_always_fits_and_shares_workers_evenly(
    logical: int, trials: int, cpus: int, memory: int
) -> None:
    machine = Machine(cpus=cpus, memory_bytes=memory * GIB)
    packed = pack(
        Resources(workers="auto"),
        logical=logical,
        trials=trials,
        machine=machine,
        footprint=SMALL,
    )
    assert packed.workers is not None
    assert logical % packed.workers == 0
    slots = packed.slots_on(machine, logical=logical)
    assert slots * packed.workers <= cpus
    assert slots == 1 or slots * packed.workers * GIB <= memory * GIB


def test_slots_are_bounded_by_what_a_process_was_seen_to_take() -> None:
    def slots(asked: int | None, memory: float) -> int:
        share = Share(slots=asked, memory_per_worker=4 * GIB)
        return choose_slots(2, share, Machine(cpus=16, memory_bytes=memory))

    assert slots(None, math.inf) == 8
    assert slots(None, 24 * GIB) == 3
    assert slots(None, 4 * GIB) == 1  # one is always tried
    assert slots(5, 24 * GIB) == 5  # a person's number stands


def test_trials_share_a_gpu_by_the_share_that_is_given() -> None:
    asked = Resources(workers=1, gpus_per_worker=0.25)
    packed = pack(asked, logical=1, trials=40, machine=GPUS, footprint=SMALL)
    assert packed.slots_on(GPUS, logical=1) == 8


@pytest.mark.parametrize("share", ["auto", -0.5])
def test_a_share_is_a_number_of_at_least_0(share: Any) -> None:
    with pytest.raises(InvalidInput, match="gpus_per_worker"):
        spaces.parse({"name": "s", "resources": {"gpus_per_worker": share}})


def test_a_cluster_is_given_a_number_of_processes(tmp_path: Path) -> None:
    space = space_in(tmp_path, resources={"workers": "auto"})
    with pytest.raises(InvalidInput, match=r"resources\.workers as a number with --address"):
        packing_for(space, (), settings_in(tmp_path), address="127.0.0.1:1")


def test_seconds_of_a_sweep_shrink_with_slots_and_less_than_with_processes() -> None:
    assert Packing(workers=1).seconds(100, slots=4, logical=2) == 25
    assert Packing(workers=2).seconds(100, slots=1, logical=2) == pytest.approx(70)


def test_measured_steps_become_the_plan_of_later_commands(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    base = {
        "model": {"name": "clc", "word_buckets": 64, "word_dim": 8, "hidden_size": 8,
                  "char_filters": 8, "char_dim": 4, "num_layers": 1},
        "training": {"epochs": 3, "expected_batch_size": 30},
    }  # fmt: skip
    space = space_in(tmp_path, base=base, resources={"workers": "auto"})
    before = prepare.prepare_space(space, settings=settings)
    assert before.plan.seconds is None
    configs = [trial.config for trial in before.plan.to_run]
    heard: list[str] = []
    found = Footprints(settings).measure(configs, say=heard.append)
    assert len(found) == len(heard) == 2  # SGD, and two noises of one cost
    for footprint in found:
        assert 0 < footprint.seconds_step < 5
        assert 50 * 2**20 < footprint.memory_bytes < 8 * GIB
    after = prepare.prepare_space(space, settings=settings)
    assert after.plan.seconds is not None
    assert after.plan.seconds >= 9 * min(f.seconds_step for f in found)
    packed = packing_for(space, after.plan.to_run, settings)
    assert packed.memory_per_worker == max(f.memory_bytes for f in found)
    text = sentence(after.plan, Resources(workers="auto"), packed)
    assert "at a time, 1 process each" in text or "2 processes each" in text
    assert " in all." in text
    assert not any(tmp_path.glob("**/weights.safetensors")), "the steps are thrown away"


def test_a_damaged_measurement_is_none(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    config = parse({})
    kept = Footprints(settings)
    assert kept.footprint_of(config) is None
    kept._folder.mkdir(parents=True)
    kept._path(config).write_text('{"seconds_step": 1')
    assert kept.footprint_of(config) is None


def test_steps_cost_the_same_whatever_they_learn() -> None:
    base = parse({"engine": "dp_sgd", "privacy": {"noise_multiplier": 1.0}})
    fields = base.model_dump(mode="json")

    def kind(**changes: dict[str, Any]) -> str:
        return cost.kind_of({k: {**v, **changes.get(k, {})} if isinstance(v, dict) else v
                             for k, v in fields.items()})  # fmt: skip

    assert kind() == kind(privacy={"noise_multiplier": 2.0}, training={"learning_rate": 0.1})
    assert kind() != kind(training={"expected_batch_size": 8})
    assert kind() != kind(training={"precision": "bf16"})
