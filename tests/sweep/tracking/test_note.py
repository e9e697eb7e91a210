"""What people read in a tracking store: descriptions that fit, names, parameters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sweep.store.plans import noise_at
from sweep.store.status import TrialStatus
from sweep.store.sweeps import SweepFolder, TrialRecord
from sweep.tracking.note import LONGEST, note, trial_note
from sweep.tracking.text import params_of, run_name
from tests.sweep.untracked import run_untracked
from trainables.config import parse


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> SweepFolder:
    return run_untracked(tmp_path_factory.mktemp("toy"))


def records(toy: SweepFolder) -> list[TrialRecord]:
    return toy.records(running=False)


def test_a_trial_says_what_it_is_and_escapes_what_people_wrote(toy: SweepFolder) -> None:
    record = records(toy)[1]
    named = replace(record.plan, name="z0=*1* <img src=x>", warnings=("a|b",))
    text = trial_note(replace(record, plan=named))
    assert "<img" not in text
    assert "z0=\\*1\\*" in text
    assert "epsilon **" in text
    assert "* a/b" in text
    failed = replace(record, status=TrialStatus.FAILED, reason="no *room*")
    assert "Why: no \\*room\\*." in trial_note(failed)


def test_a_cut_off_name_still_says_which_trial_it_is(toy: SweepFolder) -> None:
    names = [run_name(record.plan) for record in records(toy)]
    assert names == ["sgd", "z0=0.5, edp", "z0=1, edp"]
    assert len({name[:6] for name in names}) == 3


def test_the_description_says_what_each_epsilon_buys_before_the_table(toy: SweepFolder) -> None:
    text = note("A toy.", records(toy), links=[("space", "#/space")])
    order = [
        "A toy.",
        "Best trial by epsilon",
        "[space](#/space)",
        "| trial |",
        "no epsilon covers",
    ]
    places = [text.replace("\n", " ").find(words) for words in order]
    assert -1 not in places
    assert places == sorted(places)


def test_a_description_of_many_trials_is_cut_between_lines(toy: SweepFolder) -> None:
    text = note("", records(toy) * 200)
    assert len(text) <= LONGEST
    assert text.endswith("more lines.")
    rows = [line for line in text.split("\n") if line.startswith("| ")]
    assert {row.count("|") for row in rows} == {6}


def test_failures_are_said(toy: SweepFolder) -> None:
    broken = [replace(records(toy)[0], status=TrialStatus.FAILED, reason="x"), *records(toy)[1:]]
    assert "Of 3 trials: 1 failed." in note("", broken)


def test_the_noise_of_an_epoch_follows_the_decay(toy: SweepFolder) -> None:
    [base, noisy, _] = [record.plan for record in records(toy)]
    assert noise_at(base, 1) == {}
    assert noise_at(noisy, 5) == {"noise_multiplier": 0.5}
    fields = {**noisy.fields["privacy"], "noise_decay": {"kind": "linear", "tau": 1.0}}
    whole = {**noisy.fields, "privacy": fields}
    decayed = replace(noisy, origin=whole, config_id=parse(whole).id)
    assert [noise_at(decayed, epoch)["noise_multiplier"] for epoch in (1, 2)] == [0.5, 0.25]


def test_params_have_the_papers_letters_and_none_where_nothing_is_private(
    toy: SweepFolder, tmp_path: Path
) -> None:
    [base, noisy, _] = [record.plan for record in records(toy)]
    assert {"C", "z0", "tau", "decay"} <= params_of(noisy).keys()
    assert params_of(noisy)["z0"] == 0.5
    assert not any(key in params_of(base) for key in ("C", "z0", "tau", "privacy.delta"))
