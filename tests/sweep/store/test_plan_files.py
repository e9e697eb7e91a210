"""The plan on disk: read back equal, choices appended once, damage noticed wherever it is."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.store import plan_files, plans
from sweep.store.plan_files import PlanReader, add_choice, write_plan
from sweep.store.plans import Plan, PlannedTrial, RefusedBy
from trainables.config import parse
from trainables.errors import InvalidData

CONFIG = parse({"engine": "dp_sgd", "privacy": {"noise_multiplier": 1.5}})


def trial(name: str = "t", **fields: Any) -> PlannedTrial:
    base: dict[str, Any] = {
        "id": name,
        "name": name,
        "variant": "v",
        "baseline": False,
        "values": {"privacy.noise_multiplier": 1.5},
        "origin": CONFIG,
        "config_id": CONFIG.id,
        "group": "g",
        "engine": "dp_sgd",
        "seed": 0,
        "epochs": 3,
    }
    return PlannedTrial(**{**base, **fields})


_FIGURE = st.none() | st.floats(min_value=0, allow_nan=False)
_WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
_KIND: st.SearchStrategy[RefusedBy] = st.sampled_from(
    ["config", "constraint", "mechanism", "budget"]
)
_TRIALS = st.builds(
    trial,
    name=_WORDS,
    baseline=st.booleans(),
    steps=st.none() | st.integers(0, 10**9),
    num_records=st.none() | st.integers(1, 10**9),
    noise_multiplier=_FIGURE,
    epsilon=_FIGURE,
    epsilon_paper=_FIGURE,
    epsilon_budget=_FIGURE,
    seconds=_FIGURE,
    accountant=st.none() | st.sampled_from(["pld", "gaussian"]),
    warnings=st.lists(_WORDS, max_size=2).map(tuple),
    reason=st.none() | _WORDS,
    refused_by=st.none() | _KIND,
    broken=st.lists(st.tuples(_KIND, _WORDS), max_size=2).map(tuple),
)
_PLANS = st.builds(
    Plan,
    name=_WORDS,
    trials=st.lists(_TRIALS, max_size=3, unique_by=lambda each: each.id).map(tuple),
    merged=st.integers(0, 99),
    to_choose=st.integers(0, 99),
)


@settings(max_examples=40)
@given(plan=_PLANS)
def test_a_plan_comes_back_equal_with_every_figure(plan: Plan) -> None:
    """An infinite epsilon is text on the disk and infinite again when it is read."""
    document = json.loads(json.dumps(plan.to_dict(), allow_nan=False))
    again = plans.from_dict(document)
    assert again == plan
    assert [each.config for each in again.trials] == [each.config for each in plan.trials]
    assert again.seconds == plan.seconds
    assert plans.outline(document) == [(each.id, each.runs) for each in plan.trials]
    assert (document["num_trials"], document["num_refused"]) == (
        len(plan.trials),
        len(plan.refused),
    )


@pytest.mark.parametrize(
    "field", ["id", "name", "variant", "baseline", "values", "config", "group"]
)
def test_a_trial_without_a_field_is_damaged(field: str) -> None:
    row = trial().to_dict()
    assert plans.trial_from(row) == trial()
    del row[field]
    with pytest.raises(InvalidData, match="the fields of a planned trial, got damaged ones"):
        plans.trial_from(row)


@pytest.mark.parametrize(
    ("field", "value"),
    [("epsilon", "much"), ("seed", "a"), ("refused_by", "chance"), ("broken", [["budget"]])],
)
def test_a_trial_with_a_wrong_field_is_damaged(field: str, value: Any) -> None:
    with pytest.raises(InvalidData, match="got damaged ones"):
        plans.trial_from({**trial().to_dict(), field: value})


def test_the_duration_is_unknown_where_one_trial_that_runs_has_none() -> None:
    timed, untimed = trial("a", seconds=2.0), trial("b")
    assert Plan(name="s", trials=(timed, timed)).seconds == 4.0
    assert Plan(name="s", trials=(timed, untimed)).seconds is None
    refused = replace(untimed, reason="no")
    assert Plan(name="s", trials=(timed, refused)).seconds == 2.0
    assert Plan(name="s", trials=(timed,), to_choose=3).seconds is None
    probes = (trial("p", seconds=1.0), trial("q", seconds=3.0))
    assert Plan(name="s", trials=(timed,), to_choose=3, probes=probes).seconds == 2.0 + 3 * 2.0


@given(seed=st.integers(0, 9), rate=st.sampled_from([0.1, 0.2]))
def test_a_group_is_what_seeds_do_not_change(seed: int, rate: float) -> None:
    fields = {"engine": "sgd", "training": {"learning_rate": rate, "seed": seed}}
    base = {"engine": "sgd", "training": {"learning_rate": 0.1, "seed": 0}}
    assert (plans.group_of(fields) == plans.group_of(base)) is (rate == 0.1)


def test_the_noise_of_an_epoch_follows_its_decay() -> None:
    """Epoch 1 has z0; an engine without noise has none."""
    privacy = {"noise_multiplier": 2.0, "noise_decay": {"kind": "exponential", "tau": 0.5}}
    decaying = trial(
        origin=parse({"engine": "edp_sgd", "privacy": privacy}),
        engine="edp_sgd",
        noise_multiplier=2.0,
    )
    first, second = (plans.noise_at(decaying, n)["noise_multiplier"] for n in (1, 2))
    assert first == 2.0
    assert 0 < second < first
    assert plans.noise_at(trial(engine="sgd", noise_multiplier=2.0), 1) == {}
    assert plans.noise_at(trial(noise_multiplier=None), 1) == {}


# ---- on the disk


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose plan has two trials, one of them refused."""
    plan = Plan(name="s", trials=(trial("a"), trial("b", reason="no", refused_by="budget")))
    write_plan(tmp_path, plan)
    return tmp_path


def ids(reader: PlanReader) -> list[str]:
    return [each.id for each in reader.read().trials]


def test_each_choice_is_seen_once_and_in_its_order(folder: Path) -> None:
    """By a reader that was there before, and by one that comes later."""
    early = PlanReader(folder)
    assert ids(early) == ["a", "b"]
    assert early.read() is early.read(), "nothing is parsed again"
    add_choice(folder, [trial("c"), trial("d")])
    assert ids(early) == ["a", "b", "c", "d"]
    add_choice(folder, [trial("d"), trial("a"), trial("e")])
    assert ids(early) == ids(PlanReader(folder)) == ["a", "b", "c", "d", "e"]
    assert [name for name, _ in plan_files.outline(folder)][:4] == ["a", "b", "c", "d"]


def test_the_outline_says_of_each_trial_whether_it_runs(folder: Path) -> None:
    add_choice(folder, [trial("c"), trial("d", reason="no", refused_by="budget")])
    expected = [("a", True), ("b", False), ("c", True), ("d", False)]
    assert plan_files.outline(folder) == expected
    assert expected == [(each.id, each.runs) for each in PlanReader(folder).read().trials]


def test_a_choice_that_a_crash_cut_is_none_and_the_next_one_takes_its_place(folder: Path) -> None:
    reader = PlanReader(folder)
    add_choice(folder, [trial("c")])
    whole = (folder / "chosen.jsonl").read_bytes()
    (folder / "chosen.jsonl").write_bytes(whole + whole[: len(whole) // 2])
    assert ids(reader) == ["a", "b", "c"]
    add_choice(folder, [trial("d")])
    assert ids(reader) == ids(PlanReader(folder)) == ["a", "b", "c", "d"]


def test_a_plan_that_is_written_anew_holds_its_choices_itself(folder: Path) -> None:
    reader = PlanReader(folder)
    add_choice(folder, [trial("c")])
    write_plan(folder, reader.read())
    assert not (folder / "chosen.jsonl").exists()
    assert ids(reader) == ids(PlanReader(folder)) == ["a", "b", "c"]
    write_plan(folder, Plan(name="s", trials=(trial("z"),)))
    add_choice(folder, [trial("y")])
    assert ids(reader) == ["z", "y"], "a shorter file of choices is a new one"


@pytest.mark.parametrize(
    "read",
    [
        lambda folder: ids(PlanReader(folder)),
        lambda folder: [name for name, _ in plan_files.outline(folder)],
    ],
)
def test_a_plan_that_is_written_anew_while_it_is_read_has_all_its_trials(
    read: Callable[[Path], list[str]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process shows a search at the moment of its end."""
    add_choice(folder, [trial("c")])
    whole, read_json = PlanReader(folder).read(), plan_files.read_json

    def then_it_is_written(path: Path) -> Any:
        found = read_json(path)
        monkeypatch.setattr(plan_files, "read_json", read_json)
        write_plan(folder, whole)
        return found

    monkeypatch.setattr(plan_files, "read_json", then_it_is_written)
    assert read(folder) == ["a", "b", "c"]


def test_a_plan_whose_choices_cannot_be_read_is_damaged(folder: Path) -> None:
    (folder / "chosen.jsonl").mkdir()
    with pytest.raises(InvalidData, match="cannot read"):
        PlanReader(folder).read()
    with pytest.raises(InvalidData, match="cannot read"):
        plan_files.outline(folder)


def test_a_restored_copy_of_the_choices_is_read_anew(folder: Path) -> None:
    """It is shorter than what was read, and the plan beside it is the same."""
    reader = PlanReader(folder)
    add_choice(folder, [trial("c")])
    copy = (folder / "chosen.jsonl").read_bytes()
    add_choice(folder, [trial("d")])
    assert ids(reader) == ["a", "b", "c", "d"]
    (folder / "chosen.jsonl").write_bytes(copy)
    assert ids(reader) == ["a", "b", "c"]


def test_a_second_thread_waits_for_the_first_ones_plan(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two threads in the middle of it, choices could be lost."""
    reader, inside, go = PlanReader(folder), threading.Event(), threading.Event()
    read, calls = plan_files.read_json, []

    def slow(path: Path) -> Any:
        calls.append(path)
        inside.set()
        if len(calls) == 1:
            assert go.wait(60)
        return read(path)

    monkeypatch.setattr(plan_files, "read_json", slow)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(reader.read)
        assert inside.wait(60)
        second = threads.submit(reader.read)
        early = wait([second], timeout=0.2).done
        go.set()
        assert first.result(60) is second.result(60)
    assert early == set()
    assert calls == [folder / "plan.json"], "it is parsed once"


@pytest.mark.parametrize("line", ["{}", '{"trials": 3}', '{"trials": [4]}', "[]", "no json"])
def test_a_damaged_choice_is_noticed_by_both_readers(folder: Path, line: str) -> None:
    (folder / "chosen.jsonl").write_text(f"{line}\n")
    with pytest.raises(InvalidData):
        PlanReader(folder).read()
    with pytest.raises(InvalidData):
        plan_files.outline(folder)


def test_a_reader_recovers_with_the_file(folder: Path) -> None:
    reader = PlanReader(folder)
    whole = (folder / "plan.json").read_bytes()
    (folder / "plan.json").write_text("{}")
    for _ in range(2):
        with pytest.raises(InvalidData, match=r"a sweep's plan\.json as it was written"):
            reader.read()
    (folder / "plan.json").write_bytes(whole)
    assert ids(reader) == ["a", "b"]
    (folder / "plan.json").unlink()
    with pytest.raises(InvalidData):
        reader.read()
