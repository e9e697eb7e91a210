"""Tables fit the terminal they are printed on: no number is ever cut, broken or
shortened.
"""

import io
import re
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from sweep.results.tables.plan import plan_table
from sweep.results.tables.progress import Progress, live_table
from sweep.results.tables.trials import group_table, results_table
from sweep.store.plans import Plan
from sweep.store.state import TrialStatus
from tests.sweep.results.test_select import record

NUMBER = re.compile(r"(?<![\w.])[+-]?\d[\d.]*(?:e[+-]?\d+)?(?![\w])")
WIDTHS = st.integers(min_value=60, max_value=220)
numbers = st.floats(min_value=1e-9, max_value=1e12, allow_nan=False)
AXES = {
    "privacy.max_grad_norm": numbers,
    "privacy.noise_multiplier": numbers | st.builds(dict, target_epsilon=numbers),
    "privacy.noise_decay": st.fixed_dictionaries(
        {"kind": st.sampled_from(["linear", "exponential"]), "tau": numbers}
    ),
    "training.learning_rate": numbers,
    "training.expected_batch_size": st.integers(1, 100_000),
    "training.seed": st.integers(0, 9),
    "model.name": st.sampled_from(["clc", "bert_crf", "features"]),
}


def print_table(what, width):
    out = io.StringIO()
    Console(file=out, width=width, height=50).print(what)
    return out.getvalue()


@st.composite
def sweeps(draw):
    """Trials that differ by up to seven axes, with figures of any size."""
    paths = draw(st.lists(st.sampled_from(sorted(AXES)), unique=True, max_size=7))
    found = []
    for place in range(draw(st.integers(1, 5))):
        ser = draw(st.floats(0, 9))
        made = record(
            f"{place:012x}",
            baseline=place == 0,
            status=draw(st.sampled_from([TrialStatus.DONE, TrialStatus.FAILED])),
            seconds=draw(st.floats(0, 1e6)),
            ser=ser, ser_low=ser / 2, ser_high=ser * 2,
            leakage=draw(st.floats(0, 1)),
            epsilon=draw(numbers), epsilon_paper=draw(numbers),
        )  # fmt: skip
        values = {path: draw(AXES[path]) for path in paths}
        variant = draw(
            st.sampled_from(["sgd", "edp-exponential", "dp-sgd-of-three-layers"])
        )
        found.append(
            replace(made, plan=replace(made.plan, values=values, variant=variant))
        )
    return found


def as_progress(records):
    return {
        r.plan.id: Progress(
            name=r.plan.name, status=TrialStatus.RUNNING, epochs_done=3, epochs=15, plan=r.plan,
            validation=("SER", r.metrics["ser"]), epsilon=r.metrics["epsilon"],
            seconds_per_epoch=r.seconds,
        )
        for r in records
    }  # fmt: skip


def plan_of(records):
    trials = tuple(
        replace(r.plan, epsilon=r.metrics["epsilon"], steps=24) for r in records
    )
    return Plan(name="s", trials=trials)


@settings(max_examples=25, deadline=None)
@given(records=sweeps(), width=WIDTHS)
def test_no_number_is_cut_at_any_width(records, width):
    """Every number that is seen at `width` is seen where there is room for everything;
    every row has the whole of its main figures; and no line is longer than the
    terminal.
    """
    tables = (
        results_table("s", records),
        live_table("s", as_progress(records), summary="1 of 3 done"),
        plan_table(plan_of(records)),
    )
    for table in tables:
        narrow = print_table(table, width)
        whole = set(NUMBER.findall(print_table(table, 1000).replace(":", " ")))
        whole |= set(NUMBER.findall(" ".join(str(c) for c in table.settings.cells)))
        assert all(cell_len(line) <= width for line in narrow.splitlines())
        assert set(NUMBER.findall(narrow.replace(":", " "))) <= whole
        shown, _ = table.columns_at(width)
        for column in (
            c for c in table.columns if c.head.startswith("epsilon") and c.worth == 100
        ):
            assert column in shown
            assert set(column.cells) - {"-"} <= set(
                narrow.split()
            )  # an exponent is whole


def a_sweep():
    found = []
    for place, (c, z) in enumerate(
        [(0.1, 0.01), (1.0, 1e-5), (1.0, {"target_epsilon": 8.0})]
    ):
        made = record(
            f"{place}abcdef01234", ser=0.5, epsilon=6.047e7, epsilon_paper=None
        )
        values = {"privacy.max_grad_norm": c, "privacy.noise_multiplier": z}
        values |= {"training.learning_rate": 0.005}
        found.append(
            replace(made, plan=replace(made.plan, variant="edp", values=values))
        )
    return found


def test_a_column_for_each_axis_that_varies_and_none_for_what_is_constant_or_empty():
    table = results_table("s", a_sweep())
    shown, missing = table.columns_at(200)
    assert [column.head for column in shown] == ["", "id", "C", "z0", "SER", "epsilon"]
    assert missing == []
    assert "time: 1.0 s in every row" in " ".join(print_table(table, 200).split())
    for words in ("ε ≤ 8", "1e-05", "s: 3 done"):
        assert words in print_table(table, 80)


def test_the_live_table_keeps_its_columns_while_trials_come():
    rows = as_progress(a_sweep())
    waiting = {
        k: replace(v, status=TrialStatus.PLANNED) for k, v in list(rows.items())[1:]
    }
    first = live_table("s", {**rows, **waiting}, summary="")
    heads = [column.head for column in first.columns_at(120)[0]]
    assert heads[:4] == ["id", "trial", "C", "z0"]
    assert "learning_rate" not in heads


def test_what_there_is_no_room_for_is_named():
    records = [replace(r, metrics={**r.metrics, "leakage": 0.5}) for r in a_sweep()]
    records = [replace(r, seconds=1.0 + place) for place, r in enumerate(records)]
    table = results_table("s", records)
    assert "no room" not in print_table(table, 80)
    assert "no room for: time" in " ".join(print_table(table, 35).split())


def test_a_failed_trials_reason_is_below_the_table():
    failed = replace(
        record("f" * 12, status=TrialStatus.FAILED), reason="no finite loss at epoch 12"
    )
    text = print_table(results_table("s", [*a_sweep(), failed]), 80)
    assert "ffffff failed: no finite loss at epoch 12" in text.splitlines()


def test_repeats_are_distinguished_by_their_settings():
    records = [
        replace(
            r, plan=replace(r.plan, values={**r.plan.values, "training.seed": seed})
        )
        for seed in (0, 1)
        for r in a_sweep()
    ]
    table = group_table(records)
    assert [c.head for c in table.columns_at(100)[0]][:3] == ["C", "z0", "SER"]
