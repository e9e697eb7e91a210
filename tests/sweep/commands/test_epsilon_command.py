"""`sweep epsilon`: the calculator."""

import pytest

_ALGORITHM_1 = ("--num-workers", "8", "--noise-multiplier", "1", "--epochs", "30")


def _set(*fields):
    """Options that set fields of `privacy`."""
    return tuple(word for field in fields for word in ("--set", f"privacy.{field}"))


def test_algorithm_1_and_the_papers_figure(line):
    found = line.facts("epsilon", *_ALGORITHM_1, "--delta", "5e-4")
    assert found["epsilon"] == pytest.approx(581.0, rel=1e-4)
    assert found["epsilon_paper"] == pytest.approx(36.355, rel=1e-4)
    assert found["accountant"] == "gaussian"
    assert found["neighboring_relation"] == "replace_one"
    assert len(found["effective_noise_multiplier"]) == 30
    assert found["unaccounted"] == []
    central = _set("noise_calibration=central")
    central = line.facts("epsilon", *_ALGORITHM_1, "--delta", "5e-4", *central)
    assert central["epsilon"] == pytest.approx(95.173, rel=1e-4)


def test_the_table_gives_the_reasons_for_the_difference(line):
    out = line.says("epsilon", *_ALGORITHM_1, "--delta", "5e-4", "--num-records", "2560")
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


def test_poisson_sampling(line):
    options = ("--num-records", "2560", "--expected-batch-size", "64", "--delta", "5e-4")
    found = line.facts("epsilon", "--engine", "dp_sgd", *options, "--noise-multiplier", "1")
    assert found["epsilon"] == pytest.approx(4.1205, abs=2e-4)
    assert found["epsilon_rdp"] == pytest.approx(4.691, abs=1e-3)
    assert found["epsilon_paper"] is None
    assert found["epsilon_replace_one"] > found["epsilon"]
    by_rdp = line.facts("epsilon", "--engine", "dp_sgd", *options, *_set("accountant=rdp"))
    assert by_rdp["epsilon"] == by_rdp["epsilon_rdp"]
    assert by_rdp["accountant"] == "rdp"
    same = _set("sampling=poisson", "noise_calibration=central", "microbatch_size=1")
    one = line.facts("epsilon", *options, *same, "--num-workers", "8")
    assert one["epsilon"] == found["epsilon"]


def test_a_target_in_place_of_the_noise(line):
    found = line.facts("epsilon", "--target-epsilon", "8", "--delta", "1e-5", "--num-workers", "8")
    assert found["epsilon"] <= 8
    assert found["epsilon"] == pytest.approx(8, rel=1e-3)
    again = ("--noise-multiplier", str(found["noise_multiplier"]), "--delta", "1e-5")
    assert line.facts("epsilon", *again, "--num-workers", "8")["epsilon"] == found["epsilon"]


def test_infinity_is_text_and_has_reasons(line):
    for options, reason in (
        (("--engine", "sgd"), "no noise"),
        (("--noise-multiplier", "0"), "no noise"),
        (("--set", "privacy.group_scale.name=first_step"), "raw first gradient"),
    ):
        found = line.facts("epsilon", *options, "--delta", "1e-5")
        assert found["epsilon"] == "inf"
        assert reason in found["unaccounted"][0]


def test_a_public_bound_on_alpha_helps(line):
    options = (*_ALGORITHM_1, "--delta", "5e-4", "--set", "privacy.group_scale.name=public")
    scale = _set("group_scale.normalise=none", "group_scale.cap=0.5")
    bounded = line.facts("epsilon", *options, *scale)
    assert bounded["effective_noise_multiplier"][0] == pytest.approx(2 / (2 * 8**0.5))
    assert line.facts("epsilon", *options)["epsilon"] == pytest.approx(581.0, rel=1e-4)


def test_decay(line):
    options = ("--delta", "5e-4", "--noise-multiplier", "1")
    options += _set("noise_decay.kind=linear", "noise_decay.tau=0.02")
    assert line.facts("epsilon", *options)["epsilon_paper"] == pytest.approx(53.2064, rel=1e-5)


def test_the_default_delta_is_that_of_the_size(line):
    assert line.facts("epsilon", "--num-records", "1000")["delta"] == 1e-5


def test_what_depends_on_an_unknown_size_is_left_out(line):
    found = line.facts("epsilon", "--delta", "5e-4")
    assert found["num_records"] is None
    assert found["steps"] is None


def test_a_config_file_is_read_and_options_override_it(tmp_path, line):
    path = tmp_path / "trial.yaml"
    path.write_text(
        "engine: dp_sgd\ndata: {num_records: 2560}\n"
        "privacy: {noise_multiplier: 1.0, delta: 5e-4}\ntraining: {epochs: 30}\n"
    )
    assert line.facts("epsilon", str(path))["epsilon"] == pytest.approx(4.1205, abs=2e-4)
    louder = line.facts("epsilon", str(path), "--noise-multiplier", "2")
    assert louder["noise_multiplier"] == 2.0
    assert louder["epsilon"] < 4


def test_the_size_of_a_configs_data_set_is_counted(line, tmp_path):
    config = tmp_path / "trial.yaml"
    config.write_text("engine: dp_sgd\ndata: {name: communication, num_utterances: 1000}\n")
    found = line.facts("epsilon", str(config))
    assert 250 < found["num_records"] < 1_000
    assert found["steps"] > 0
    assert found["epsilon"] > 0


@pytest.mark.parametrize("declared", ["", ", num_records: 20, schema_file: schema.json"])
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
    extreme = (*_set(f"sampling={sampling}"), "--noise-multiplier", noise, "--delta", delta)
    assert float(line.facts("epsilon", *records, *extreme)["epsilon"]) >= 0
