"""The account of a config: the size its noise rests on, and bounds that are never too
small.
"""

import pytest

from sweep.planning import accounting as planning
from sweep.planning.accounting import Accounting, TrainingSize, size_of
from tests.encoders import family_folders
from tests.lines import write_lines
from tests.models.test_lm_folder import base_in
from tests.refusals import refused
from tests.sweep.sweeps import settings_in, write_corpus
from tests.tasks._pairs import tiny, write_pairs
from trainables.config.mechanism import build
from trainables.config.trial import parse
from trainables.data import pair_split
from trainables.data.pair_split import split_pairs
from trainables.dp.accounting import choose
from trainables.errors import InvalidData, InvalidInput
from trainables.models.configs import OwnCodeConfig


def config_of(**fields):
    """A trial on ATIS, whose size is public: no file is opened."""
    base = {
        "engine": "dp_sgd",
        "data": {"name": "atis"},
        "privacy": {"delta": 1e-5, "noise_multiplier": 2.0},
        "training": {"epochs": 2, "expected_batch_size": 64},
    }
    return parse({**base, **fields})


def own(folder, **changes):
    """The data fields of a user's corpus of 200 records, of which 90 train."""
    return {**write_corpus(folder), **changes}


def test_the_planning_bound_is_above_the_finer_one_and_the_exact_figure(settings):
    """A plan may refuse a trial that fits, and never admits one that does not."""
    config = config_of()
    account = Accounting(settings)
    quick = account(config)
    finer = account(config, careful=True)
    exact = choose.account(build(config, num_records=2463))
    assert quick.mechanism == finer.mechanism == build(config, num_records=2463)
    assert exact.epsilon <= finer.summary.epsilon <= quick.summary.epsilon


def test_a_named_accountant_gives_its_own_figure_and_the_config_may_name_it(settings):
    account = Accounting(settings)
    tightest = account(config_of()).summary
    rdp = account(config_of(), accountant="rdp", careful=False).summary
    assert rdp.accountant == "rdp" != tightest.accountant
    assert tightest.epsilon < rdp.epsilon <= rdp.epsilon_rdp
    named = config_of(
        privacy={"delta": 1e-5, "noise_multiplier": 2.0, "accountant": "rdp"}
    )
    assert account(named).summary == rdp


def test_a_target_is_met_by_the_figure_that_plans_compare(settings):
    config = config_of(
        privacy={"delta": 1e-5, "noise_multiplier": {"target_epsilon": 2.0}}
    )
    found = Accounting(settings)(config)
    assert 1.98 < found.summary.epsilon <= 2.0
    assert found.summary.noise_multiplier == found.mechanism.noise_multiplier > 0


@pytest.mark.parametrize("noise", [0.8, {"target_epsilon": 2.0}])
@pytest.mark.parametrize("careful", [False, True])
def test_a_plan_has_the_figure_that_a_trial_of_a_named_accountant_reports(
    settings, noise, careful
):
    """A budget would admit a trial by another accountant's, which its card then
    exceeds.
    """
    privacy = {"delta": 1e-5, "noise_multiplier": noise, "accountant": "gaussian"}
    found = Accounting(settings)(config_of(privacy=privacy), careful=careful)
    exact = choose.account(found.mechanism, accountant="gaussian")
    assert found.summary.accountant == "gaussian"
    assert found.summary.epsilon == pytest.approx(exact.epsilon)


def test_a_public_corpus_has_its_known_size_without_any_file(tmp_path):
    nowhere = settings_in(tmp_path / "nowhere")
    assert size_of(config_of(), nowhere) == TrainingSize(2463)
    privacy = {"delta": 1e-5, "noise_multiplier": 2.0, "unit": "group"}
    by_group = config_of(data={"name": "atis", "num_records": 500}, privacy=privacy)
    assert size_of(by_group, nowhere) == TrainingSize(500), (
        "of groups, which nobody has counted"
    )
    assert not (tmp_path / "nowhere").exists()


def test_a_users_corpus_is_declared_or_counted_and_then_says_so(settings, tmp_path):
    """A number that was read from private records leaves the trial without a
    guarantee.
    """
    data = own(tmp_path)
    assert size_of(config_of(data=data), settings) == TrainingSize(90)
    counted = {k: v for k, v in data.items() if k not in ("num_records", "schema_file")}
    found = size_of(config_of(data=counted), settings)
    assert found.num_records == 90
    assert found.undeclared, "the reasons stand on the card"
    training = {"epochs": 1, "expected_batch_size": 30}
    summary = Accounting(settings)(
        config_of(data=counted, training=training), careful=False
    ).summary
    assert summary.epsilon == float("inf")
    assert summary.unaccounted


def test_groups_and_records_of_a_corpus_are_counted_apart(settings, tmp_path):
    """The same declared 40 is right for groups of ten and far off for records."""
    rows = [
        {"text": f"call {n}", "intent": "x", "group": f"g{n // 10}"} for n in range(800)
    ]
    write_lines(tmp_path / "groups.jsonl", rows)
    (tmp_path / "schema.json").write_text('{"intents": ["x"], "slots": []}')
    data = {"name": "json_lines", "path": "groups.jsonl", "schema_file": "schema.json"}
    data["num_records"] = 40
    privacy = {"delta": 1e-5, "noise_multiplier": 2.0}
    by_group = config_of(data=data, privacy={**privacy, "unit": "group"})
    assert size_of(by_group, settings).num_records == 40
    with refused("of the records that train, got 40", InvalidData):
        size_of(config_of(data=data), settings)


def test_pairs_are_sized_by_their_private_part(settings, tmp_path):
    """The public quarter of the training pairs costs nothing."""
    config = tiny(write_pairs(tmp_path, training=120))
    size = size_of(config, settings)
    assert 0 < size.num_records < 120
    found = Accounting(settings)(config)
    assert found.mechanism.num_records == size.num_records


def test_private_pairs_are_counted_once_to_check_a_declared_number(
    settings, tmp_path, monkeypatch
):
    counted = []

    def split(corpus, data, synthesis):
        counted.append(data)
        return split_pairs(corpus, data, synthesis)

    monkeypatch.setattr(pair_split, "split_pairs", split)
    place = write_pairs(tmp_path, training=120)
    config = tiny(place, **{"data.name": "pair_lines", "data.num_records": 100})
    assert size_of(config, settings).num_records == 100
    assert len(counted) == 1


def test_a_model_that_no_trial_could_train_is_refused_before_any_figure(
    settings, tmp_path, monkeypatch
):
    def build(config, *, schema, seed):
        raise InvalidInput(f"unfit for intents {schema.intents}")

    monkeypatch.setattr(OwnCodeConfig, "require_usable", lambda *_: None)
    monkeypatch.setattr(OwnCodeConfig, "build", build)
    training = {"epochs": 1, "expected_batch_size": 30}
    fields = {"data": own(tmp_path), "model": {"name": "module"}, "training": training}
    with refused("unfit for intents"):
        Accounting(settings)(config_of(**fields))
    config = config_of(model={"name": "bert", "encoder": "/no/such/folder"})
    with refused("/no/such/folder"):
        Accounting(settings)(config)
    assert not (settings.cache_dir / "figures.jsonl").exists()


def test_an_encoder_is_held_against_private_utterances_alone(
    settings, tmp_path, monkeypatch
):
    """Of pairs the language model is; a public corpus is not even opened."""
    asked = []
    monkeypatch.setattr(
        planning, "require_unlearnt", lambda encoder, _: asked.append(encoder)
    )
    family_folders.write(tmp_path / "mine", "bert")
    base_in(tmp_path / "base", gpt2=True)
    training = {"epochs": 1, "expected_batch_size": 30}
    account = Accounting(settings)
    for data in ({"name": "atis"}, own(tmp_path)):
        for encoder in ("scratch", str(tmp_path / "mine")):
            model = {"name": "bert", "encoder": encoder}
            account(config_of(data=data, model=model, training=training))
    account(tiny(write_pairs(tmp_path), **{"model.encoder": str(tmp_path / "base")}))
    assert asked == [str(tmp_path / "mine")]
