"""Names and words in a tracking store: what is not registered as public is the curator's alone."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.tracking.text import (
    CURATOR_PREFIX,
    MARKER,
    NUMBER,
    OF_A_SWEEP,
    epoch_table,
    escape,
    flat,
    grouped_key,
    logarithms,
    metric_key,
    params_of,
    run_name,
    tags_of,
    violation_text,
)
from tests.sweep.store.test_plan_files import trial
from trainables.config import parse
from trainables.figures import is_public

_NAMES = st.text("abcdefghijklmnopqrstuvwxyz_0123456789", min_size=1, max_size=20)


@given(name=_NAMES)
def test_a_name_that_is_not_registered_is_never_public(name: str) -> None:
    """Neither as it is, nor as a best value, nor as a logarithm."""
    for whole in (name, f"best_{name}", f"log10_{name}"):
        key = metric_key(whole)
        if key.startswith(CURATOR_PREFIX):
            assert key == f"{CURATOR_PREFIX}{whole}"
        else:
            alone = whole.removeprefix("best_").removeprefix("log10_")
            assert is_public(whole) or is_public(alone) or whole in {*OF_A_SWEEP, MARKER, NUMBER}


@pytest.mark.parametrize(
    "name",
    ["train_accuracy", "train_loss", "clip_fraction", "leakage", "mia_shadow_auc", "canary_auc"],
)
def test_figures_of_private_records_without_noise_are_the_curators(name: str) -> None:
    for whole in (name, f"best_{name}"):
        assert metric_key(whole) == f"{CURATOR_PREFIX}{whole}"


@given(name=_NAMES)
def test_a_group_keeps_the_audience_and_loses_no_name(name: str) -> None:
    """Two figures never share a key, and a curator's figure stays under its prefix."""
    key = metric_key(name)
    shown = grouped_key(key)
    assert shown.startswith(CURATOR_PREFIX) == key.startswith(CURATOR_PREFIX)
    assert shown.endswith(key.removeprefix("best_").removeprefix("validation_"))
    assert grouped_key(shown) == shown or "/" not in shown


_SIGNS = "\\`*_[]#!~|<>&"


@given(text=st.text(st.sampled_from(f"{_SIGNS}ab \n\t"), max_size=30))
def test_what_a_person_wrote_is_neither_markdown_nor_html_nor_a_new_line(text: str) -> None:
    found = escape(text)
    assert not {"|", "<", ">", "\n", "\t"} & set(found)
    plain = found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    place = 0
    while place < len(plain):  # every sign has its own backslash
        if plain[place] == "\\":
            assert plain[place + 1] in "\\`*_[]#!~"
            place += 1
        else:
            assert plain[place] not in "\\`*_[]#!~"
        place += 1


def rows() -> list[dict[str, Any]]:
    return [
        {"epochs_done": 1, "seconds": 0.5, "metrics": {"validation_ser": 0.5, "train_loss": 2.0}},
        {"epochs_done": 2, "seconds": 0.75, "metrics": {"validation_ser": 0.25}},
    ]


def test_the_table_of_epochs_for_the_public_has_public_columns_alone() -> None:
    public = list(csv.reader(io.StringIO(epoch_table(rows(), public=True))))
    assert public == [
        ["epochs_done", "seconds", "validation_ser"],
        ["1", "0.5", "0.5"],
        ["2", "0.75", "0.25"],
    ]
    curator = list(csv.reader(io.StringIO(epoch_table(rows(), public=False))))
    assert curator[0] == ["epochs_done", "seconds", "curator_only/train_loss", "validation_ser"]
    assert curator[2] == ["2", "0.75", "", "0.25"], "a figure that an epoch lacks is empty"


def test_nested_fields_are_dotted_and_nothing_is_lost_but_what_is_missing() -> None:
    fields = {"a": {"b": {"c": 1}, "d": None}, "e": [], "f": ("x", 2), "g": False, "h": {}}
    assert dict(flat(fields)) == {"a.b.c": 1, "e": "", "f": "x, 2", "g": False}


def test_parameters_have_the_noise_of_the_plan_in_place_of_a_target() -> None:
    """A trial with `target_epsilon` has the multiplier that was found for it."""
    privacy = {"noise_multiplier": {"target_epsilon": 3.0}, "max_grad_norm": 0.5}
    config = parse({"engine": "dp_sgd", "privacy": privacy})
    found = params_of(trial(origin=config, noise_multiplier=1.25))
    assert (found["z0"], found["noise_multiplier"], found["C"]) == (1.25, 1.25, 0.5)
    assert found["privacy.noise_multiplier.target_epsilon"] == 3.0
    assert (found["decay"], found["tau"]) == ("none", 0.0)
    unknown = params_of(trial(origin=config, noise_multiplier=None))
    assert "z0" not in unknown
    plain = params_of(trial(origin=parse({"engine": "sgd"}), engine="sgd"))
    assert not [name for name in plain if name.startswith("privacy") or name in ("C", "tau")]


def test_a_run_is_found_by_its_tags() -> None:
    made = trial(warnings=("one", "two"), baseline=True)
    about = {"versions": {"torch": "2"}, "git_commit": None}
    tags = tags_of(made, about)
    assert tags["privacy.warnings"] == "one; two"
    assert (tags["baseline"], tags["engine"], tags["group"]) == ("true", "dp_sgd", "g")
    assert (tags["version.torch"], tags["git_commit"]) == ("2", "")
    assert all(isinstance(value, str) for value in tags.values())


def test_the_name_of_a_run_begins_with_what_differs() -> None:
    values = {"privacy.noise_multiplier": 0.5, "training.learning_rate": 0.1}
    assert run_name(trial(values=values)) == "z0=0.5, lr=0.1, v"
    assert run_name(trial(values={})) == "v"


def test_a_violation_never_rounds_the_bound_up_or_the_claim_down() -> None:
    """Else it would say more than was certified."""
    found = violation_text({"epsilon_lower_bound": 2.99999, "epsilon_claimed": 1.00001})
    bound, claim = (float(found.split()[place]) for place in (3, -1))
    assert bound <= 2.99999
    assert claim >= 1.00001
    assert violation_text(None) == ""


@given(epsilon=st.none() | st.floats(0, allow_nan=False))
def test_a_logarithm_is_of_a_positive_finite_epsilon(epsilon: float | None) -> None:
    found = logarithms({"epsilon": epsilon, "ser": 0.5})
    if epsilon and math.isfinite(epsilon):
        assert found == {"log10_epsilon": math.log10(epsilon)}
    else:
        assert found == {}


def test_a_refused_trial_has_parameters_too() -> None:
    refused = replace(trial(), reason="no", refused_by="budget")
    assert params_of(refused)["C"] == 1.0
