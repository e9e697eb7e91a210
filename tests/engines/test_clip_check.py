"""A step whose clipped sum is not what its definition says ends before anything of it
leaves.
"""

import math
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
from engine_checks import (
    SIZE,
    WAYS,
    WIDTHS,
    Meeting,
    draw_of,
    engine_on,
    gradients,
    mechanism,
    weights_of,
)

from tests.models._builds import TYPES, built
from tests.models.test_own_draws import built as own
from tests.refusals import refused
from tests.tasks.test_nlu_trial import config, place, run
from tests.whole_trial import units
from tests.whole_trial.small import NUM_RECORDS, Utterances, model_and_loader
from trainables.dp import per_record
from trainables.dp.engines import _check, _private
from trainables.dp.engines._check import TOLERANCE, Schedule, difference, some_of
from trainables.dp.engines._private import PrivateEngine
from trainables.dp.gradient_hook import GradientHook
from trainables.dp.layers.char_cnn import CharCnnEntry
from trainables.dp.layers.crf.layer import CrfEntry
from trainables.dp.layers.embedding import EmbeddingEntry
from trainables.dp.layers.factored import FactoredEntry
from trainables.dp.layers.layer_norm import LayerNormEntry
from trainables.dp.layers.linear import LinearEntry
from trainables.dp.layers.lstm import LstmEntry
from trainables.dp.layers.tied_table import TiedTableEntry
from trainables.dp.noise import public_key
from trainables.errors import TrialFailed
from trainables.figures import is_public
from trainables.system import checkpoint
from trainables.system.communication import Alone
from trainables.tasks._trial_result import clipping_check

__all__ = ["own", "place"]
C = 0.5


class Silent(Alone):
    """Counts what a process sends."""

    sent = 0

    def all_reduce_sum(self, tensor):
        self.sent += 1


def engine_of(kind, request=None, *, engine="dp_sgd", **setup):
    """The engine over random records; `kind` is of `whole_trial.small`, "heads" or
    "own".
    """
    if kind == "own":
        model = request.getfixturevalue("own")
    elif kind == "heads":
        model = built(name="features")
    else:
        model, loader = model_and_loader(kind, dropout=0.3)
    if kind in ("own", "heads"):
        loader = Utterances(model, model.feature_table(TYPES))
    mech = mechanism(
        engine, records=NUM_RECORDS, batch=6, workers=1, epochs=2, max_grad_norm=C
    )
    place = {
        "model": model,
        "loader": loader,
        "comm": Silent(),
        "key": public_key(0, "check"),
    }
    return engine_on(mech, range(NUM_RECORDS), learning_rate=0.05, **place, **setup)


def scaled(owner, name, factor):
    """`owner.name` with results `factor` times as large; of a method that adds, what it
    adds.
    """
    right = getattr(owner, name)

    def adds(self, units, factors, views):
        right(self, units, None if factors is None else factor * factors, views)

    def returns(self, *given):
        return right(self, *given) * factor

    return adds if name == "add_gradient" else returns


# Each a small error of one accelerator: what is broken, and of which model.
BROKEN = {
    "clc": [
        (LstmEntry, "add_gradient"),
        (LstmEntry, "squared_norms"),
        (CharCnnEntry, "add_gradient"),
        (CrfEntry, "add_gradient"),
        (EmbeddingEntry, "add_gradient"),
        (LinearEntry, "squared_norms"),
    ],
    "lora": [(LinearEntry, "add_gradient")],
    "heads": [(FactoredEntry, "add_gradient"), (FactoredEntry, "squared_norms")],
    "bert": [(LayerNormEntry, "squared_norms"), (LinearEntry, "add_gradient")],
    "causal_lm": [(TiedTableEntry, "squared_norms")],
}
FACTORS = {"squared_norms": 0.8, "add_gradient": 1.02}
CASES = [
    *(
        (kind, "dp_sgd", *what, FACTORS[what[1]])
        for kind, each in BROKEN.items()
        for what in each
    ),
    ("clc", "edp_sgd", GradientHook, "norm", 0.9),  # of a micro-batch
]


def require_stopped(engine):
    before = weights_of(engine)
    with refused(r"got [\d.]+(e-\d+)? C: nothing of the step", TrialFailed) as found:
        engine.step(0, 0)
    figure = float(str(found.value).rpartition(" got ")[2].partition(" C")[0])
    assert TOLERANCE < figure < 10
    assert engine.released.numel() == 0
    assert engine.comm.sent == 0
    assert not engine._flat.message.any()
    assert torch.equal(weights_of(engine), before)
    assert all(not s.any() for n, s in engine.state_dict().items() if "exp_avg" in n)


@pytest.mark.parametrize(("kind", "engine", "owner", "name", "factor"), CASES)
def test_a_broken_book_ends_the_trial_with_the_figure(
    kind, engine, owner, name, factor, monkeypatch
):
    engine = engine_of(kind, engine=engine)
    monkeypatch.setattr(owner, name, scaled(owner, name, factor))
    require_stopped(engine)


def with_a_long_record(kind, *, precision="fp32", most=None):
    """The engine over 160 short records and one of 1,000 words, in one batch; `most`:
    the physical batch.
    """
    model, loader = units.model_and_loader(kind)
    for number in range(160):
        loader.add("random", 3 + number % 9, seed=number)
    loader.add("random", 1_000, seed=0)
    mech = mechanism(
        "dp_sgd", records=161, batch=161, workers=1, sampling="full", max_grad_norm=C
    )
    return engine_on(
        mech, range(161), model=model, loader=loader, comm=Silent(), precision=precision,
        physical_batch_size=most,
    )  # fmt: skip


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("kind", ["clc", "features"])
def test_a_bound_by_the_longest_of_the_batch_ends_the_trial_in_its_first_step(
    kind, precision, monkeypatch
):
    """Whichever records are compared."""
    engine = with_a_long_record(kind, precision=precision)
    units.with_the_longest_of_the_batch(monkeypatch)
    require_stopped(engine)
    monkeypatch.undo()
    with_a_long_record(kind, precision=precision).step(0, 0)


def test_a_unit_that_others_move_ends_the_trial_though_the_part_that_is_compared_is_right(
    monkeypatch,
):
    """The long record may not be among those that are recomputed; it is in the step."""
    engine = with_a_long_record("clc")
    monkeypatch.setattr(
        _check, "some_of", lambda draw, *_, **__: _check.taken(draw, np.arange(4))
    )
    units.with_the_longest_of_the_batch(monkeypatch)
    before = weights_of(engine)
    with refused("that of the unit alone within 0.0001 C, got", TrialFailed):
        engine.step(0, 0)
    assert engine.comm.sent == 0
    assert not engine._flat.message.any()
    assert torch.equal(weights_of(engine), before)


@pytest.mark.parametrize("what", ["weights", "gradients"])
def test_a_trial_that_diverged_ends_with_an_error_that_says_so(what, monkeypatch):
    engine = engine_of("clc")
    engine.step(0, 0)
    weight = engine.model.tag_head.weight
    with torch.no_grad():
        weight.mul_(1e37 if what == "gradients" else torch.inf)
    with refused(
        f"finite {what} in step .* diverged.*lower training.learning_rate", TrialFailed
    ):
        engine.run_epoch(1)


@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("bad", [torch.nan, -torch.inf])
def test_one_weight_that_is_not_finite_is_enough(bad, place):
    """Whichever layer has it."""
    engine = engine_of("clc")
    engine.step(0, 0)
    with torch.no_grad():
        engine.layout.parameters[place].view(-1)[-1] = bad
    with refused("finite weights in step .* diverged", TrialFailed):
        engine.run_epoch(1)


def test_a_book_that_is_wrong_for_many_units_at_once_ends_the_trial(monkeypatch):
    """More than are formed alone."""
    monkeypatch.setattr(_check, "_MOST", 1)
    monkeypatch.setattr(_check, "AT_FIRST", 1)
    right = LinearEntry.add_gradient

    def breaks(self, units, factors, views):
        if factors is not None and len(factors) > 2:
            factors = factors * torch.linspace(1.0, 1.1, len(factors))
        right(self, units, factors, views)

    monkeypatch.setattr(LinearEntry, "add_gradient", breaks)
    require_stopped(engine_of("clc"))


def test_a_broken_gradient_of_own_code_ends_the_trial(request, monkeypatch):
    right = per_record.gradients

    def larger(model, inputs):
        found, losses = right(model, inputs)
        return {name: values * 1.01 for name, values in found.items()}, losses

    engine = engine_of("own", request)
    monkeypatch.setattr(per_record, "gradients", larger)
    require_stopped(engine)


@pytest.mark.parametrize(
    ("kind", "engine", "precision"),
    [
        *(
            (kind, engine, "fp32")
            for kind in (*BROKEN, "own")
            for engine in ("dp_sgd", "edp_sgd")
        ),
        ("clc", "dp_sgd", "bf16"),
        ("bert", "edp_sgd", "bf16"),
    ],
)
def test_comparing_changes_no_bit_and_finds_rounding(kind, engine, precision, request):
    """Also where records come in pieces, dropout is drawn and the torch generator is in
    use.
    """
    found = {}
    for compares in (True, False):
        torch.manual_seed(0)
        made = engine_of(
            kind, request, engine=engine, precision=precision, physical_batch_size=4,
            compares=compares,
        )  # fmt: skip
        torch.manual_seed(1)
        figures = [made.run_epoch(epoch) for epoch in (0, 1)]
        found[compares] = figures, made.released.clone(), torch.rand(3)
    (figures, released, drawn), (others, same, again) = found[True], found[False]
    differences = [each.pop("clip_difference") for each in figures]
    assert all(0 < each <= TOLERANCE for each in differences)
    assert torch.equal(drawn, again)
    if kind != "own":  # whose masks are secret
        assert torch.equal(released, same)
        assert figures == others


def test_the_figure_is_for_the_curator_and_the_largest_of_all_processes(monkeypatch):
    assert not is_public("clip_difference")
    found = []

    def noted(*_, **__):
        found.append(1e-6 * (1 + len(found)))
        return found[-1]

    monkeypatch.setattr(_private, "difference", noted)
    mech, table = mechanism("dp_sgd", workers=2), gradients(200)
    figures = Meeting(2).run(
        lambda comm: engine_on(mech, table, comm=comm).run_epoch(0)
    )
    assert len(found) == 4  # the first step and one more, on either
    assert [each["clip_difference"] for each in figures] == [max(found)] * 2


def test_without_noise_nothing_is_promised_and_nothing_compared():
    made = engine_on(replace(mechanism("dp_sgd"), noise_multiplier=0.0), gradients(200))
    assert "clip_difference" not in made.run_epoch(0)


@pytest.mark.parametrize("way", ["books", "torch.func"])
def test_a_sum_of_thousands_of_records_ends_no_trial(way, monkeypatch):
    """In float32 it rounds by more than is tolerated, so that not all are compared at
    first.
    """
    table = 1 + torch.rand(4_000, SIZE, generator=torch.Generator().manual_seed(0))
    whole = {
        "records": len(table),
        "batch": len(table),
        "workers": 1,
        "sampling": "full",
    }
    for most in (_private.MOST_AT_FIRST, len(table)):
        monkeypatch.setattr(_private, "MOST_AT_FIRST", most)
        made = engine_on(mechanism("dp_sgd", **whole), table, model=WAYS[way](WIDTHS))
        fails = most == len(table)
        with refused("nothing of", TrialFailed) if fails else nullcontext():
            made.step(0, 0)


def test_scales_of_more_groups_than_there_are_scale_nothing():
    with pytest.raises(ValueError, match="argument 2 is longer"):
        per_record.clipped_sum(
            WAYS["torch.func"](WIDTHS), gradients(2), weight_of_record=torch.ones(2),
            max_grad_norm=C, group_scale=torch.ones(4), out=torch.zeros(SIZE),
        )  # fmt: skip


def schedule(seed=0, *, steps=10, size=1_000, whole=0):
    return Schedule(
        lambda epoch: np.random.default_rng([seed, epoch]),
        lambda _: steps,
        size=size,
        whole=whole,
    )


def part_of(made, draw, epoch, step):
    """The number of records that are compared; of which units alone, where each has
    one.
    """
    found = made.part_of(draw, epoch, step)
    return found and (len(found[0].records), len(set(found[1])))


def test_a_random_step_of_each_epoch_and_the_first_are_compared():
    draw, empty = draw_of([[n] for n in range(100)]), draw_of([[]])
    counts = np.zeros(10)
    for seed in range(200):
        made = schedule(seed)
        found = {
            (epoch, step): part
            for epoch in range(3)
            for step in range(10)
            if (part := part_of(made, draw, epoch, step))
        }
        assert found.pop((0, 0)) == (16, 16)
        assert set(found.values()) <= {(4, 4)}
        later = [step for epoch, step in found if epoch > 0]
        assert len(later) == 2
        counts[later] += 1
    assert counts.min() > 15  # 400 / 10; below it once in 10^5
    made = schedule()
    assert (
        sum(part_of(made, draw, 1, step) is not None for step in range(10)) == 1
    )  # resumed
    made = schedule()
    assert made.part_of(empty, 0, 0) is None
    assert part_of(made, draw, 0, 1) == (16, 16)
    late = [part_of(made, empty if step < 9 else draw, 1, step) for step in range(10)]
    assert late == [None] * 9 + [(4, 4)]


def test_all_of_the_first_physical_batch_is_compared_and_some_units_alone():
    draw = draw_of([[n] for n in range(100)])
    for whole, records in ((40, 40), (2_560, 100), (3, 16)):
        made = schedule(whole=whole, steps=1)
        assert part_of(made, draw, 0, 0) == (records, 16)
        assert part_of(made, draw, 1, 0) == (4, 4)
    shared = draw_of([[*range(20)], [], [*range(20, 29)], [*range(29, 40)], [40]])
    seen = np.zeros(4)
    for seed in range(200):
        part, alone = schedule(seed, whole=2_560).part_of(shared, 0, 0)
        assert part.records.tolist() == [*range(41)]
        *before, last = part.sizes[alone]
        assert sum(before) < 16 <= sum(before) + last
        seen[alone] += 1
    assert seen.min() > 60


@pytest.mark.parametrize(
    ("size", "most"), [(1_000, 4), (4_000_000, 3), (110_000_000, 2)]
)
def test_large_models_compare_fewer_records(size, most):
    draw, made = draw_of([[n] for n in range(100)]), schedule(size=size, steps=1)
    assert part_of(made, draw, 0, 0) == (4 * most, 4 * most)
    assert part_of(made, draw, 1, 0) == (most, most)


def test_a_part_has_few_units_and_every_record_is_as_likely():
    draw = draw_of([[1, 2, 3], [], [4], [5, 6, 7, 8], [9]])
    seen, lone = np.zeros(10), 0
    for seed in range(600):
        part = some_of(draw, 2, np.random.default_rng(seed))
        lone += part.num_units == 1
        assert len(part.records) == 2
        assert part.sizes.sum() == 2
        assert part.num_units <= 2
        assert (np.diff(part.unit) >= 0).all()
        unit_of = dict(zip(draw.records, draw.unit, strict=True))
        whole = [unit_of[record] for record in part.records]
        assert (part.num_units == 1) == (whole[0] == whole[1])
        assert (part.weights == 1 / part.sizes[part.unit]).all()
        seen[part.records] += 1
    assert seen[[1, 2, 3]].min() > 60
    assert lone > 240, (
        "half of them: a part begins with a unit of several records or is of two"
    )
    whole = some_of(draw, 64, np.random.default_rng(0))
    assert whole.records.tolist() == draw.records.tolist()
    assert whole.sizes.tolist() == [3, 1, 4, 1]


class Mixes(torch.nn.Module):
    """Clipped by `torch.func`; the loss of a record reads the others."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def record_groups(self, batch):
        yield torch.arange(len(batch)), (batch + 0.01 * batch.mean(0),)

    def forward(self, rows):
        return rows @ self.weight

    def losses(self, batch):
        (_, (rows,)) = next(self.record_groups(batch))
        return self(rows)


def test_a_model_that_mixes_records_is_found():
    mech = mechanism("dp_sgd", max_grad_norm=1.0)
    table = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    made = engine_on(mech, table, [[0], [1], [2]], model=Mixes())
    with refused("nothing of the step is released", TrialFailed):
        made.step(0, 0)


class Plain(torch.nn.Module):
    """loss = f(weight . row)"""

    def __init__(self, f=lambda x: x):
        super().__init__()
        self.weight, self.f = torch.nn.Parameter(torch.tensor([0.6, 0.8])), f

    def losses(self, rows):
        return self.f(rows @ self.weight)


ROWS = torch.tensor([[3.0, 4.0], [0.3, 0.4], [math.inf, 0.0]])


def found_of(model, *, clipped, norms, scale=(1.0,), alone=None, bound=1.0):
    return difference(
        model,
        lambda ids: ROWS[torch.from_numpy(ids)],
        draw_of([[n] for n in range(len(norms))]),
        np.arange(len(norms)) if alone is None else np.array(alone, dtype=np.int64),
        clipped=torch.tensor(clipped),
        norms=torch.tensor(norms),
        max_grad_norm=bound,
        group_scale=torch.tensor(scale),
    )


RIGHT = [5.0, 0.5]
BY_HAND = [
    ([0.9, 1.2], RIGHT, {}, 0.0),
    ([0.9, 1.3], RIGHT, {}, 0.1),
    *(
        ([0.9, 1.2], [*RIGHT, math.inf], {"alone": alone}, 0.0)
        for alone in ([], [1], [2, 0])
    ),
    *(
        ([0.9, 1.3], [*RIGHT, math.inf], {"alone": alone}, 0.1)
        for alone in ([], [1], [2, 0])
    ),
    ([1.5, 2.2], RIGHT, {"bound": 2.0}, 0.1),  # of C
    ([1.5, 2.0], [2.5, 0.25], {"scale": (2.0,)}, 0.0),  # in scaled space
    ([1.8, 2.4], [2.5, 0.25], {"scale": (2.0,)}, 0.25),
    # A norm too small lets through more than C, one too large less, which costs no
    # privacy.
    ([1.5, 2.0], [2.5], {}, 1.0),
    ([0.3, 0.4], [10.0], {}, 0.0),
    # What is not finite adds nothing.
    ([0.9, 1.2], [*RIGHT, math.inf], {}, 0.0),
    ([0.9, 1.2], [*RIGHT, 2.0], {}, math.inf),
    ([math.nan, 1.2], RIGHT, {}, math.inf),
]


@pytest.mark.parametrize("at_once", [1, 2, 16])
@pytest.mark.parametrize(("clipped", "norms", "how", "expected"), BY_HAND)
def test_the_difference_by_hand(clipped, norms, how, expected, at_once, monkeypatch):
    """Gradients are the rows: [.6, .8] once clipped, and [.3, .4]."""
    monkeypatch.setattr(_check, "_AT_ONCE", at_once)
    found = found_of(Plain(), clipped=clipped, norms=norms, **how)
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_code_that_names_float32_and_a_kink_are_compared_in_float32():
    right = {"clipped": [0.9, 1.2], "norms": [5.0, 0.5]}
    names = Plain(lambda x: torch.dot(x, torch.eye(1)[0]).unsqueeze(0))
    assert found_of(names, **right) < 1e-6
    # |x| at a number that is 0 in one precision and below it in the other.
    bend = Plain(
        lambda x: (
            (x - x.detach() + (-1e-12 if x.dtype == torch.float64 else 0)).relu() + x
        )
    )
    assert found_of(bend, **right) < 1e-6
    with pytest.raises(RuntimeError):
        found_of(Plain(lambda x: x @ torch.eye(3)), **right)
    # A small bend, and a factor of 1 that float32 rounds to 0.
    slight = Plain(lambda x: x * (1 + (5e-4 if x.dtype == torch.float64 else 0)))
    assert found_of(slight, clipped=[0.6, 0.8], norms=[5.0]) < 1e-6
    exact = Plain(lambda x: x * (x.new_tensor(1e8) + 1 - 1e8))
    assert found_of(exact, **right) < 1e-7


@pytest.mark.parametrize("broken_epoch", [1, 2])
def test_a_trial_ends_before_its_epoch_is_reported_or_saved(
    place, tmp_path, broken_epoch, monkeypatch
):
    epochs = []
    right, whole = LinearEntry.add_gradient, PrivateEngine.run_epoch

    def counted(self, epoch):
        epochs.append(epoch)
        return whole(self, epoch)

    def breaks(self, units, factors, views):
        if len(epochs) >= broken_epoch and factors is not None:
            factors = factors * 1.01
        right(self, units, factors, views)

    monkeypatch.setattr(PrivateEngine, "run_epoch", counted)
    monkeypatch.setattr(LinearEntry, "add_gradient", breaks)
    with refused(rf"in epoch {broken_epoch} within 0\.0001 C", TrialFailed):
        run(place, tmp_path / "trial", config("dp_sgd"))
    assert len(epochs) == broken_epoch
    saved = checkpoint.load(tmp_path / "trial") if broken_epoch > 1 else None
    assert checkpoint.exists(tmp_path / "trial") == (broken_epoch > 1)
    assert saved is None or len(saved.state["history"]) == 1
    assert not (tmp_path / "trial" / "model").exists()


def test_the_card_says_that_sums_were_compared_and_not_how_far_they_were(
    place, tmp_path
):
    result, reports = run(place, tmp_path / "trial", config("dp_sgd"))
    assert all(0 < each.metrics["clip_difference"] <= TOLERANCE for each in reports)
    assert result.privacy.clipping_check.model_dump() == {
        "verdict": "pass", "tolerance": TOLERANCE, "alone": True,
    }  # fmt: skip
    assert (
        run(place, tmp_path / "plain", config("sgd"))[0].privacy.clipping_check is None
    )
    assert clipping_check([{"clip_difference": 1e-6}, {}]) is None
    assert (
        clipping_check([{"clip_difference": 2e-4}, {"clip_difference": 0.0}]).verdict
        == "fail"
    )
