"""The privacy card states the guarantee and its limits on one page."""

import json
import math
from dataclasses import asdict

import pytest

from tests.refusals import refused
from trainables.cards.card import ClippingCheck, StepAudit, make, read, with_sweep
from trainables.cards.page import to_markdown
from trainables.config.mechanism import build_from
from trainables.config.trial import PrivacyConfig, TrainingConfig
from trainables.dp.accounting.certification import certify
from trainables.dp.accounting.choose import account
from trainables.dp.accounting.releases import release
from trainables.dp.accounting.rounding import format_epsilon
from trainables.errors import InvalidData
from trainables.figures import curator_only

_AUDIT = StepAudit(verdict="pass", measured=0.177, low=0.17, high=0.184)


def build(engine="edp_sgd", *, undeclared=(), **privacy):
    return build_from(
        engine,
        PrivacyConfig(**{"delta": 5e-4, **privacy}),
        training=TrainingConfig(num_workers=8),
        num_records=5_000,
        undeclared=undeclared,
    )


def card(mechanism, **facts):
    facts = {"provenance": "trained from scratch", "step_audit": _AUDIT, **facts}
    return make(
        mechanism, account(mechanism), trial_id="0123456789ab", corpus="atis", **facts
    )


def test_the_card_says_where_noise_is_not_the_ciphers():
    for secure, said in (
        (True, "AES-256-CTR"),
        (False, "secure_noise=false): not a cipher"),
    ):
        made = card(build(), secure_noise=secure)
        (generator,) = (
            line for line in made.randomness if line.startswith("noise generator")
        )
        assert said in generator


def test_a_failed_audit_is_the_first_that_is_read():
    failed = StepAudit(verdict="fail", claimed=1.0, measured=0.5, low=0.45, high=0.55)
    first = to_markdown(card(build(delta=1e-5), step_audit=failed)).splitlines()[2]
    assert first.startswith("> **Warning.** the audit of the step failed")
    assert "Warning" not in to_markdown(card(build(delta=1e-5)))


@pytest.mark.parametrize("sampling", ["shuffle", "poisson"])
def test_the_card_calls_the_order_of_a_shuffle_public(sampling):
    key, _, seed = card(build("dp_sgd", sampling=sampling)).randomness
    is_public = "order of records: it is public" in seed
    assert is_public == ("coins" not in key) == (sampling == "shuffle")


@pytest.mark.parametrize("public", [True, False])
def test_the_card_says_where_the_records_are_taken_for_public(public):
    page = to_markdown(card(build(), public_data=public))
    assert ("public: the data set, by its name" in page) is public


def test_the_card_claims_no_more_comparisons_than_are_made():
    check = ClippingCheck(verdict="pass", tolerance=1e-4, alone=True)
    page = to_markdown(card(build(), clipping_check=check))
    assert "a few random records of every epoch" in page
    assert "each unit alone" not in page


def test_the_card_is_json_and_keeps_every_figure():
    mechanism = build()
    made = json.loads(json.dumps(card(mechanism).to_dict(), allow_nan=False))
    assert read(made, where="a test") == card(mechanism)
    assert made["epsilon"] == pytest.approx(581.0, rel=1e-4)
    assert made.items() >= account(mechanism).to_dict().items()
    assert made["curator_only"] == list(curator_only())
    assert made["datasets"] == {"training": {"name": "atis"}}


def test_the_page_says_what_is_not_covered():
    page = to_markdown(card(build()))
    for words in (
        *(
            "replaced",
            "delta * n = 2.5",
            "no guarantee",
            "validation",
            "floating-point",
        ),
        *("choice of this trial", "secret key", "2 C", "atis", "measured 0.177"),
        *curator_only(),
    ):
        assert words in page
    assert len(page.splitlines()) < 80, "one page"


@pytest.mark.parametrize(
    ("sampling", "kept"),
    [("poisson", True), ("random_allocation", True), ("shuffle", False)],
)
def test_the_card_says_that_participation_is_kept_secret(sampling, kept):
    """Amplification by sampling holds against those alone who do not see who was in a
    step.
    """
    found = card(build("dp_sgd", sampling=sampling)).adversary
    assert ("which records took part in a step" in found) is kept


@pytest.mark.parametrize(("engine", "kept"), [("edp_sgd", True), ("dp_sgd", False)])
def test_with_full_batches_micro_batches_are_secret(engine, kept):
    mechanism = build(engine, sampling="full", noise_calibration="central")
    assert ("shared a micro-batch" in card(mechanism).adversary) is kept


def test_workers_that_were_played_are_called_logical():
    assert "8 workers were logical, played by 1 process:" in to_markdown(card(build()))
    assert card(build(), processes=8).workers == "8 workers, each a process of its own"


def test_an_infinite_epsilon_comes_with_its_reasons():
    made = card(build(group_scale="first_step", reproducible_noise=True))
    page = to_markdown(made)
    assert made.epsilon == math.inf
    assert "**No finite epsilon holds**" in page
    assert "raw first gradient" in page
    assert "for tests only" in page
    assert "differentially private for" not in page


@pytest.mark.parametrize(("n", "z"), [(30_000, 0.3), (70_000, 0.77), (12_347, 3.1)])
def test_the_stated_figures_are_never_rounded_down(n, z):
    delta = 1 / (10 * n)  # the default, whose digits do not end
    mechanism = build(delta=delta, noise_multiplier=z)
    found = card(mechanism)
    epsilon, stated = found.guarantee.partition("(")[2].partition(")")[0].split(", ")
    (row,) = (
        line for line in to_markdown(found).splitlines() if line.startswith("| delta |")
    )
    for shown in (stated, row.split("|")[2]):
        assert delta <= float(shown) <= delta * (1 + 1e-5)
    least = account(mechanism).epsilon
    assert least <= float(epsilon) <= least * 1.002


def test_the_sweep_around_the_trial():
    mechanism = build()
    alone = card(mechanism)
    assert "no total was given" in to_markdown(alone)
    total = certify([release(mechanism)] * 4, delta=5e-4, effort="total")
    page = to_markdown(
        with_sweep(alone, total=asdict(total), refused="a grid run whole")
    )
    assert "all 4 released trials together" in page
    assert "a grid run whole" in page
    infinite = certify([release(build("sgd"))], delta=5e-4, effort="total")
    assert math.isinf(infinite.epsilon)
    shown = with_sweep(alone, total=asdict(infinite), refused="")
    assert shown.to_dict()["sweep_total"]["epsilon"] == "inf"
    assert "no noise is added (sgd)" in to_markdown(shown)
    assert alone.sweep_total is None, "the first card is left as it was"


def test_groups_and_records_are_distinguished():
    grouped = card(build(unit="group", max_records_per_group=5))
    assert "group of records" in grouped.guarantee
    assert not any(
        "a person with several records" in line for line in grouped.not_covered
    )
    assert any(
        "a person with several records" in line for line in card(build()).not_covered
    )


def test_what_a_card_says_too_much_is_dropped():
    made = card(build()).to_dict()
    made["datasets"]["training"]["fingerprint"] = "f" * 64
    more = {
        **made,
        "num_duplicates": 3,
        "mechanism": {**made["mechanism"], "records": 7},
    }
    found = json.dumps(read(more, where="a test").to_dict())
    assert not any(
        word in found for word in ("fingerprint", "ffff", "num_duplicates", "7}")
    )
    with refused("expected a privacy card in a test, got a damaged delta", InvalidData):
        read({**made, "delta": "much"}, where="a test")


def test_a_counted_number_of_records_is_not_shown():
    counted = build("dp_sgd", undeclared=("n was counted",))
    page = to_markdown(card(counted, n_is_declared=False))
    assert "counted on private data, for the curator alone" in page
    shown = card(counted, n_is_declared=False).to_dict()
    assert shown["mechanism"]["num_records"] is None
    assert not {"5000", "0.0128"} & set(page.replace("|", " ").split())
    printed = {str(value) for value in shown.values()}
    assert not {"5000", str(counted.sample_rate), str(counted.steps)} & printed


def test_the_claim_says_what_it_allows_an_attacker():
    mechanism = build(noise_multiplier=40.0)
    page = to_markdown(card(mechanism))
    summary = account(mechanism)
    assert f"| mu | {format_epsilon(summary.gaussian_mu)} |" in page
    assert "| largest TPR at 0.1 % FPR |" in page
    assert "| n | 5000 |" in page
    assert "sees the weights after every step" in page
    assert "| reviewer | date | decision |" in page
