import pytest

_ALGORITHM_1 = ("--num-workers", "8", "--noise-multiplier", "1", "--epochs", "30")


def _set(*fields):
    """Options that set fields of `privacy`."""
    return tuple(word for field in fields for word in ("--set", f"privacy.{field}"))


_DP_SGD = ("--engine", "dp_sgd", "--num-records", "2560", "--expected-batch-size", "64")
_AS_DP_SGD = ("sampling=poisson", "noise_calibration=central", "microbatch_size=1")
_DECAY = ("noise_decay.kind=linear", "noise_decay.tau=0.02")
_POISSON = {"epsilon": 4.1205, "epsilon_rdp": 4.691}
_BOUNDED = (
    "group_scale.name=public",
    "group_scale.normalise=none",
    "group_scale.cap=0.5",
)


@pytest.mark.parametrize(
    ("options", "fields", "figures"),
    [
        (
            _ALGORITHM_1,
            (),
            {"epsilon": 581.0, "epsilon_paper": 36.355, "unaccounted": []},
        ),
        (_ALGORITHM_1, ("noise_calibration=central",), {"epsilon": 95.173}),
        (_ALGORITHM_1, ("group_scale.name=public",), {"epsilon": 581.0}),
        (("--noise-multiplier", "1"), _DECAY, {"epsilon_paper": 53.2064}),
        ((*_DP_SGD, "--noise-multiplier", "1"), (), _POISSON | {"epsilon_paper": None}),
        (
            ("--num-records", "2560", "--num-workers", "8"),
            _AS_DP_SGD,
            {"epsilon": 4.1205},
        ),
        (_DP_SGD, ("accountant=rdp",), {"epsilon": 4.691, "accountant": "rdp"}),
        (
            (*_ALGORITHM_1, "--epochs", "7"),
            (),
            {"epochs": 7, "steps": None, "num_records": None},
        ),
        (
            (*_DP_SGD[:-1], "32", "--steps", "9"),
            (),
            {"steps": 9, "expected_batch_size": 32},
        ),
    ],
)
def test_golden_figures(line, options, fields, figures):
    found = line.facts("epsilon", *options, "--delta", "5e-4", *_set(*fields))
    assert {name: found[name] for name in figures} == {
        name: pytest.approx(value, rel=1e-4) if isinstance(value, float) else value
        for name, value in figures.items()
    }


def test_the_table_gives_the_reasons_for_the_difference(line):
    out = line.says(
        "epsilon", *_ALGORITHM_1, "--delta", "5e-4", "--num-records", "2560"
    )
    text = " ".join(out.split())
    for words in (
        "581.1",
        "36.36",
        "largest TPR at 1 % FPR",
        "2560",
        "sums as a variance",
        "2 C",
        "delta * n = 1.28",
    ):
        assert words in text


def test_the_noise_of_an_epoch_is_shown_and_a_public_bound_on_alpha_helps(line):
    found = line.facts("epsilon", *_ALGORITHM_1, "--delta", "5e-4", *_set(*_BOUNDED))
    assert found["effective_noise_multiplier"] == [pytest.approx(2 / (2 * 8**0.5))] * 30


def test_a_target_in_place_of_the_noise(line):
    found = line.facts(
        "epsilon", "--target-epsilon", "8", "--num-workers", "8", "--num-records", 99
    )
    assert (found["epsilon"], found["delta"]) == (pytest.approx(8, rel=1e-3), 1e-5)
    assert found["epsilon"] <= 8
    again = ("--noise-multiplier", found["noise_multiplier"], "--delta", 1e-5)
    assert (
        line.facts("epsilon", *again, "--num-workers", "8")["epsilon"]
        == found["epsilon"]
    )


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--engine", "sgd"), "no noise"),
        (("--noise-multiplier", "0"), "no noise"),
        (_set("group_scale.name=first_step"), "raw first gradient"),
    ],
)
def test_infinity_is_text_and_has_reasons(line, options, reason):
    found = line.facts("epsilon", *options, "--delta", "1e-5")
    assert found["epsilon"] == "inf"
    assert reason in found["unaccounted"][0]


@pytest.mark.parametrize(
    "declared", ["", ", num_records: 20, schema_file: schema.json"]
)
def test_what_would_be_counted_on_private_records_has_no_figure(line, place, declared):
    """As the trial itself would have none."""
    row = '{"tokens": ["call", "%d"], "tags": ["O", "O"], "intent": "call"}\n'
    (place / "mine.jsonl").write_text("".join(row % number for number in range(40)))
    (place / "schema.json").write_text('{"intents": ["call"], "slots": ["contact"]}')
    config = place / "trial.yaml"
    config.write_text(
        "engine: dp_sgd\ntraining: {expected_batch_size: 10, epochs: 1}\n"
        "data: {name: json_lines, path: mine.jsonl" + declared + "}\n"
    )
    found = line.facts("epsilon", str(config))
    assert (found["epsilon"] == "inf") == (not declared)
    assert bool(found["unaccounted"]) == (not declared)


@pytest.mark.parametrize("sampling", ["poisson", "shuffle"])
@pytest.mark.parametrize("noise", ["1e-9", "1e9"])
@pytest.mark.parametrize("delta", ["5e-324", "1e-310", "0.9999999999999999"])
def test_an_extreme_is_a_number_or_one_line(sampling, noise, delta, line):
    records = ("--num-records", "1000", "--expected-batch-size", "64", "--epochs", "3")
    extreme = (
        *_set(f"sampling={sampling}"),
        "--noise-multiplier",
        noise,
        "--delta",
        delta,
    )
    assert float(line.facts("epsilon", *records, *extreme)["epsilon"]) >= 0


def test_a_target_of_risk_in_place_of_the_noise(line):
    found = line.facts(
        *("epsilon", "--engine", "dp_sgd", "--num-records", 2560, "--steps", 40),
        *("--set", "privacy.sampling=full", "--target-tpr", "0.05"),
    )
    assert found["noise_multiplier"] == pytest.approx(9.2804, rel=1e-4)
    assert 0.0499 < found["max_tpr_1pct"] <= 0.05
    assert found["max_advantage"] == pytest.approx(0.2667, abs=1e-4)
