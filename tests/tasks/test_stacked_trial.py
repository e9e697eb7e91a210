"""Trials trained as one stack: each has the result, the files and the rights that it has alone."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from trainables import engines, trial
from trainables.communication import Alone
from trainables.config import TrialConfig, parse
from trainables.engines import Stack
from trainables.errors import InvalidInput, TrialFailed
from trainables.result import EpochReport, TrialResult
from trainables.stacked_trial import Member, run_stacked, stack_key
from trainables.tasks import _facts

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


_AUDITED = functools.cache(engines.audit_step)


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


@pytest.fixture(autouse=True)
def _few_audits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The step audit of a card depends on the mechanism alone: once for each is enough here."""
    monkeypatch.setattr(_facts, "_AUDIT_CALLS", 100)
    monkeypatch.setattr(engines, "audit_step", _AUDITED)


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


def test_another_task_or_precision_has_no_stack() -> None:
    assert stack_key(config(training__precision="bf16")) is None
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


def stop_after(epochs: int) -> Callable[[EpochReport], bool]:
    return lambda epoch: epoch.epochs_done < epochs


def test_a_member_that_is_stopped_leaves_and_the_others_go_on(
    tmp_path: Path, stacks: list[Stack]
) -> None:
    chosen = different("edp_sgd", "clc", training__epochs=3)
    reports = [go_on, stop_after(1), stop_after(2)]
    members = [
        Member(config=one, folder=tmp_path / f"stacked{n}", report=report)
        for n, (one, report) in enumerate(zip(chosen, reports, strict=True))
    ]
    results = together(members, tmp_path)
    for number, (one, report, result) in enumerate(zip(chosen, reports, results, strict=True)):
        folder = tmp_path / f"alone{number}"
        assert_equal_results(result, alone(one, folder, report))
        assert_equal_weights(members[number].folder, folder)
    assert stacks[0].passes[3] == stacks[0].passes[2] == stacks[0].passes[1] > 0


@pytest.mark.parametrize("model", ["clc", "bert"])
def test_checkpoints_go_from_a_trial_alone_into_a_stack_and_back(
    tmp_path: Path, model: str
) -> None:
    chosen = different("dp_sgd", model, training__epochs=3)
    folders = [tmp_path / f"trial{n}" for n in range(3)]
    alone(chosen[0], folders[0], stop_after(2))  # two epochs on, the others at their start
    members = [
        Member(config=one, folder=folder, report=report)
        for one, folder, report in zip(
            chosen, folders, (go_on, stop_after(1), stop_after(2)), strict=True
        )
    ]
    whole = together(members, tmp_path)[0]
    rest = [alone(one, folder, go_on) for one, folder in zip(chosen[1:], folders[1:], strict=True)]
    for number, (one, result) in enumerate(zip(chosen, [whole, *rest], strict=True)):
        folder = tmp_path / f"uninterrupted{number}"
        assert_equal_results(result, alone(one, folder, go_on))
        assert_equal_weights(folders[number], folder)


def test_what_breaks_one_member_does_not_touch_the_others(tmp_path: Path) -> None:
    def broken(epoch: EpochReport) -> bool:
        raise TrialFailed(f"expected to go on, broke after epoch {epoch.epochs_done}")

    chosen = [
        config(training__seed=1),
        config(training__seed=2),
        config(
            privacy__noise_multiplier={"target_epsilon": 1e-9}, privacy__reproducible_noise=True
        ),
        config(training__seed=3, privacy__noise_multiplier=0.2),
    ]
    reports = [go_on, broken, go_on, go_on]
    members = [
        Member(config=one, folder=tmp_path / f"stacked{n}", report=report)
        for n, (one, report) in enumerate(zip(chosen, reports, strict=True))
    ]
    results = together(members, tmp_path)
    assert isinstance(results[1], TrialFailed)
    assert isinstance(results[2], InvalidInput)  # refused before its first step
    for number in (0, 3):
        folder = tmp_path / f"alone{number}"
        assert_equal_results(results[number], alone(chosen[number], folder, go_on))
        assert_equal_weights(members[number].folder, folder)


def test_reports_come_on_the_callers_thread_and_no_thread_is_left(tmp_path: Path) -> None:
    before, seen = threading.active_count(), []

    def report(epoch: EpochReport) -> bool:
        seen.append((threading.current_thread(), epoch.epochs_done))
        return True

    chosen = [config("sgd", training__seed=seed) for seed in (1, 2)]
    members = [
        Member(config=one, folder=tmp_path / str(n), report=report) for n, one in enumerate(chosen)
    ]
    together(members, tmp_path)
    assert [epochs for _, epochs in seen] == [1, 1, 2, 2]  # side by side
    assert {thread for thread, _ in seen} == {threading.current_thread()}
    assert threading.active_count() == before


def test_an_error_of_the_listener_ends_the_whole_stack(tmp_path: Path) -> None:
    def ended(number: int, outcome: TrialResult | Exception) -> None:
        raise RuntimeError("nobody listens")

    members = [
        Member(config=config("sgd", training__seed=n), folder=tmp_path / str(n), report=report)
        for n, report in enumerate((go_on, stop_after(1)))
    ]
    before = threading.active_count()
    with pytest.raises(RuntimeError, match="nobody listens"):
        run_stacked(members, data_dir=tmp_path, cache_dir=tmp_path / "cache", ended=ended)
    assert threading.active_count() == before


def test_secret_noise_differs_between_members_that_are_equal_otherwise(tmp_path: Path) -> None:
    private = config("dp_sgd", privacy__reproducible_noise=False, training__epochs=1)
    members = [Member(config=private, folder=tmp_path / name, report=go_on) for name in ("a", "b")]
    first, second = together(members, tmp_path)
    assert isinstance(first, TrialResult)
    assert isinstance(second, TrialResult)
    assert first.privacy["mechanism"] == second.privacy["mechanism"]
    with pytest.raises(AssertionError):
        assert_equal_weights(tmp_path / "a", tmp_path / "b")
