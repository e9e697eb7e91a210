"""Names and words in MLflow: few figures, each parameter once, nothing private in a
table.
"""

import re
from dataclasses import replace

import pytest

from sweep.results.export import public_metrics
from sweep.results.tables.trials import violations
from sweep.store.state import TrialStatus
from sweep.tracking.mlflow_store import (
    ABOUT_EXPERIMENT,
    CURATOR,
    headline,
    learning_curves,
    params_of,
    result_tags,
    summary_of,
)
from tests.sweep.results.test_select import record, text
from tests.sweep.store.test_plans import trial
from trainables.config.trial import parse

NLU = {
    "ser": 0.1,
    "validation_ser": 0.2,
    "icer": 0.05,
    "slot_f1": 0.9,
    "epsilon": 7.5,
    "epsilon_paper": 2.0,
    "mia_loss_threshold_auc": 0.6,
    "mia_loss_threshold_tpr_1pct": 0.03,
    "mia_quantile_auc": 0.55,
    "mia_quantile_tpr_1pct": 0.5,
    "leakage": 0.6,
    "epsilon_lower_bound": 0.5,
    "train_loss": 3.5,
    "nobody_registered_this": 1.0,
}


def private(**figures):
    """A trial whose noise was calibrated."""
    noise = {"noise_multiplier": {"target_epsilon": 8.0}}
    config = parse({"engine": "dp_sgd", "privacy": noise, "data": {"name": "atis"}})
    made = record("dp", **(NLU | figures))
    plan = replace(made.plan, origin=config, noise_multiplier=1.25, delta=1e-5)
    return replace(made, plan=plan)


def test_a_trial_has_twelve_figures_with_plain_names():
    found = {name: value for name, (_, value) in headline(private()).items()}
    assert found.pop("seconds") > 0
    assert list(found.items()) == [
        *(("ser", 0.1), ("intent_error", 0.05), ("slot_f1", 0.9), ("mia_auc", 0.6)),
        *(("mia_tpr_at_1_percent", 0.03), ("epsilon", 7.5), ("paper_epsilon", 2.0)),
        *(("epsilon_lower_bound", 0.5), ("delta", 1e-5), ("noise_multiplier", 1.25)),
        ("best_validation_ser", 0.2),
    ]
    assert learning_curves("nlu") == ["validation_ser", "validation_errors"]
    assert "`mia_auc` is the MIA-AUC" in ABOUT_EXPERIMENT


def test_an_inverted_attack_has_no_rate_of_true_positives():
    """Its scores say the opposite of what the rate counts."""
    inverted = {f"mia_loss_threshold_auc{end}": 0.2 for end in ("", "_low", "_high")}
    found = headline(private(**inverted, leakage=0.8))
    assert found["mia_auc"] == ("leakage", 0.8)
    assert "mia_tpr_at_1_percent" not in found


def test_the_auc_of_the_papers_attack_is_logged_for_the_curator():
    made = private(mia_shadow_auc=0.56)
    found = headline(made)
    assert found["mia_auc_paper"] == ("mia_shadow_auc", 0.56)
    assert "mia_auc_paper" in result_tags(made, found)[CURATOR]


def test_a_generated_corpus_has_its_own_figures():
    measured = {
        "mauve_states": 0.5,
        "validation_loss": 2.0,
        "word_type_overlap": 0.7,
        "epsilon": 1.0,
    }
    made = text("dp", **measured, num_generated=9.0)
    assert {
        "mauve_states",
        "best_validation_loss",
        "word_type_overlap",
        "epsilon",
    } <= set(headline(made))
    assert not {"num_generated", "ser", "mia_auc"} & set(headline(made))


def test_figures_that_no_epsilon_covers_are_named():
    made = private()
    tag = result_tags(made, headline(made))[CURATOR]
    assert tag == "epsilon_lower_bound, mia_auc, mia_tpr_at_1_percent"
    infinite = replace(made, metrics={"ser": 0.5, "epsilon": float("inf")})
    assert result_tags(infinite, headline(infinite))["epsilon"] == "inf"


@pytest.mark.parametrize(
    ("reason", "public"),
    [
        (
            "TrialFailed: expected the clipped sum of step 3 within 1e-4 C, got 0.731 C",
            "TrialFailed",
        ),
        ("ValueError at trial.py:41 (4 times)", "ValueError"),
        ("expected a norm of at most 1, got 0.731: see Table 0.731", ""),
        ("its worker processes died (4 times)", ""),
    ],
)
def test_the_words_of_a_failure_are_the_curators(reason, public):
    """They may quote what no epsilon covers."""
    failed = replace(private(), status=TrialStatus.FAILED, reason=reason)
    tags = result_tags(failed, {})
    assert tags["sweep.reason"] == " with ".join(filter(None, ("failed", public)))
    assert tags[f"{CURATOR}.reason"] == reason


def test_the_words_of_a_budget_are_public_unless_they_reveal_a_number_of_records():
    reason = "epsilon 8.123 (paper) after 3 epochs exceeds budget.epsilon=8"
    stopped = replace(private(), status=TrialStatus.STOPPED, reason=reason)
    assert result_tags(stopped, {})["sweep.reason"] == reason
    assert result_tags(stopped, {})[f"{CURATOR}.reason"] == ""
    origin = parse({**stopped.plan.fields, "data": {"name": "json_lines"}})
    counted = replace(stopped, plan=replace(stopped.plan, origin=origin))
    assert result_tags(counted, {})["sweep.reason"] == ""
    assert result_tags(counted, {})[f"{CURATOR}.reason"] == reason


@pytest.mark.parametrize(
    ("data", "is_hidden"),
    [
        ({"name": "json_lines"}, True),
        ({"name": "json_lines", "num_records": 40_000}, False),
        ({"name": "atis"}, False),
    ],
)
def test_a_figure_that_reveals_a_counted_number_of_private_records_is_the_curators(
    data, is_hidden
):
    """Delta follows from n by default, and the paper's epsilon from delta."""
    made = private(delta=1 / 432_100, steps=3.0)
    made = replace(
        made, plan=replace(made.plan, origin=parse({**made.plan.fields, "data": data}))
    )
    assert ("delta" not in public_metrics(made)) == is_hidden
    named = set(result_tags(made, headline(made))[CURATOR].split(", "))
    assert ({"delta", "paper_epsilon"} <= named) == is_hidden
    assert ("best_paper_epsilon" not in summary_of([made])) == is_hidden


def test_a_point_that_makes_no_config_has_no_figure_to_hide():
    origin = {"engine": "none such"}
    refused = replace(
        record("all", engine="sgd").plan, origin=origin, refused_by="config"
    )
    assert not refused.reveals_count("epsilon_paper")


def test_parameters_are_the_axes_by_short_names_then_the_config_by_its_paths():
    privacy = {"noise_multiplier": 1.25, "max_grad_norm": 0.5}
    config = parse({"engine": "dp_sgd", "privacy": privacy})
    stated = trial(origin=config, noise_multiplier=1.25)
    found = params_of(stated)
    assert (found["privacy.noise_multiplier"], found["privacy.max_grad_norm"]) == (
        1.25,
        0.5,
    )
    assert next(iter(found)) == "z0", "the trial's only axis"
    assert not {"C", "tau", "decay", "noise_multiplier"} & set(found)
    values = {**NLU, "ser": 0.5}
    assert "noise_multiplier" not in headline(
        replace(record("x", **values), plan=stated)
    )
    plain = params_of(trial(origin=parse({"engine": "sgd"})))
    assert not [name for name in plain if name.startswith("privacy")]
    assert params_of(replace(stated, reason="no", refused_by="budget")) == found
    given = {
        "a": {"b": {"c": 1}, "d": None},
        "e": [],
        "f": ("x", 2),
        "g": False,
        "h": {},
    }
    assert params_of(trial(origin=given)) == {
        "z0": "1.5",
        "a.b.c": 1,
        "e": "",
        "f": "x, 2",
        "g": False,
    }


def test_a_violation_never_rounds_the_bound_up_or_the_claim_down():
    """Else it would say more than was certified."""
    claimed = {"epsilon_lower_bound": 2.99999, "epsilon_claimed": 1.00001}
    made = replace(private(), violation=claimed)
    (found,) = violations([private(), made])
    claim, bound = map(float, re.findall(r"\d+\.\d+", found))
    assert bound <= 2.99999
    assert claim >= 1.00001
    assert result_tags(made, {})[f"{CURATOR}.violation"] == found
