"""Trials trained as one stack: each has the result, the files and the rights that it has alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from trainables import trial
from trainables.communication import Alone
from trainables.config import TrialConfig, parse
from trainables.engines import Stack
from trainables.errors import InvalidInput
from trainables.result import EpochReport, TrialResult
from trainables.stacked_trial import Member, run_stacked, stack_key

MODELS: dict[str, dict[str, Any]] = {
    "clc": {"word_buckets": 64, "word_dim": 8, "char_dim": 4, "char_filters": 6}
    | {"hidden_size": 12, "num_layers": 2},
    "bert": {"name": "bert", "hidden_size": 24, "num_heads": 2, "num_layers": 2}
    | {"word_buckets": 64, "intermediate_size": 32},
}
# What the members of a stack differ in: seed, learning rate, C, z0, tau.
DIFFERENCES = (
    {"training.seed": 3},
    {"training.learning_rate": 0.01, "privacy.max_grad_norm": 0.3},
    {
        "training.seed": 4,
        "privacy.noise_multiplier": 0.1,
        "privacy.noise_decay": {"kind": "linear", "tau": 0.5},
    },
)


def config(engine: str = "dp_sgd", model: str = "clc", **changes: Any) -> TrialConfig:
    """A small trial; `changes` are named `part__field`."""
    fields: dict[str, Any] = {
        "engine": engine,
        "data": {"name": "communication", "num_utterances": 1_000, "max_records": 120},
        "model": MODELS[model],
        "training": {"epochs": 2, "expected_batch_size": 16, "num_workers": 2},
        "privacy": {"reproducible_noise": True, "noise_multiplier": 0.3},
        "evaluation": {"attacks": ["loss_threshold"], "bootstrap_samples": 10},
    }
    fields["training"]["learning_rate"] = 0.02
    for name, value in changes.items():
        part, field = name.split("__" if "__" in name else ".")
        fields[part][field] = value
    return parse(fields)


def different(engine: str, model: str, **changes: Any) -> list[TrialConfig]:
    return [config(engine, model, **changes, **own) for own in DIFFERENCES]


def go_on(_: EpochReport) -> bool:
    return True


def alone(chosen: TrialConfig, folder: Path, report: Callable[[EpochReport], bool]) -> TrialResult:
    return trial.run(
        chosen,
        folder=folder,
        comm=Alone(),
        report=report,
        data_dir=folder,
        cache_dir=folder.parent / "cache",
    )


def together(members: Sequence[Member], place: Path) -> list[TrialResult | Exception]:
    found: dict[int, TrialResult | Exception] = {}

    def ended(number: int, outcome: TrialResult | Exception) -> None:
        assert number not in found
        found[number] = outcome

    run_stacked(members, data_dir=place, cache_dir=place / "cache", ended=ended)
    return [found[number] for number in range(len(members))]


def assert_equal_results(ours: TrialResult | Exception, its: TrialResult) -> None:
    """Equal but for seconds, and for the last digits of figures that weights enter."""
    assert isinstance(ours, TrialResult), ours
    assert ours.privacy == its.privacy
    assert (ours.trial_id, ours.epochs_done, ours.stopped_early, ours.notes) == (
        its.trial_id,
        its.epochs_done,
        its.stopped_early,
        its.notes,
    )
    assert ours.metrics.keys() == its.metrics.keys()
    for name, truth in its.metrics.items():
        mine = ours.metrics[name]
        if name.startswith("seconds"):
            continue
        if truth is None or math.isinf(truth):
            assert mine == truth
        else:
            assert mine == pytest.approx(truth, rel=1e-3, abs=1e-3), name


def assert_equal_weights(ours: Path, its: Path) -> None:
    mine, truth = (
        load_file(str(folder / "model" / "weights.safetensors")) for folder in (ours, its)
    )
    assert mine.keys() == truth.keys()
    for name, tensor in truth.items():
        if name.endswith("qkv.bias"):
            # Softmax does not see a bias of all keys: its gradient is rounding alone, which Adam
            # blows up to steps of full size.
            for bias in (mine[name], tensor):
                bias.view(3, -1)[1] = 0.0
        assert (mine[name] - tensor).norm() <= 1e-5 * tensor.norm() + 1e-6, name


@pytest.fixture
def stacks(monkeypatch: pytest.MonkeyPatch) -> list[Stack]:
    """The stacks that were made, so that a test can see that passes were shared."""
    made: list[Stack] = []
    init = Stack.__init__

    def remember(stack: Stack) -> None:
        init(stack)
        made.append(stack)

    monkeypatch.setattr(Stack, "__init__", remember)
    return made


@pytest.mark.parametrize("model", ["clc", "bert"])
@pytest.mark.parametrize("engine", ["sgd", "edp_sgd", "dp_sgd"])
def test_a_stacked_trial_ends_as_it_does_alone(
    tmp_path: Path, engine: str, model: str, stacks: list[Stack]
) -> None:
    # A few steps: rounding differences grow through Adam, which divides by a gradient's size.
    chosen = different(engine, model, training__expected_batch_size=20)
    members = [
        Member(config=one, folder=tmp_path / f"stacked{n}", report=go_on)
        for n, one in enumerate(chosen)
    ]
    results = together(members, tmp_path)
    for number, (one, result) in enumerate(zip(chosen, results, strict=True)):
        folder = tmp_path / f"alone{number}"
        assert_equal_results(result, alone(one, folder, go_on))
        assert_equal_weights(members[number].folder, folder)
    passes = stacks[0].passes
    assert passes[3] == passes.total()  # every one was shared by all three


def test_only_what_leaves_the_shape_of_a_step_alone_may_differ(tmp_path: Path) -> None:
    keys = {stack_key(one) for one in different("dp_sgd", "clc")}
    assert len(keys) == 1
    assert None not in keys
    others = [
        config("edp_sgd"),
        config(model="bert"),
        config(training__epochs=3),
        config(training__expected_batch_size=8),
        config(privacy__sampling="shuffle"),
        config(privacy__delta=1e-6),
        config(data__max_records=100),
    ]
    assert len(keys | {stack_key(one) for one in others}) == 1 + len(others)
    with pytest.raises(InvalidInput, match="differ only in max_grad_norm"):
        together(
            [Member(config=one, folder=tmp_path, report=go_on) for one in (config(), others[0])],
            tmp_path,
        )


def test_another_task_has_no_stack() -> None:
    assert (
        stack_key(
            parse(
                {
                    "task": "synthesis",
                    "engine": "sgd",
                    "data": {"name": "treedst"},
                    "model": {"name": "causal_lm"},
                }
            )
        )
        is None
    )
