"""A sweep whose trials cover every record: what its ledger, its choice and its exports
hold.
"""

import json
import math
from dataclasses import replace

import pytest

from sweep.planning.prepare import prepare_space
from sweep.results import comparison, select
from sweep.results.export import export_trial
from sweep.results.report_files import write
from sweep.runtime import runner
from sweep.spending.ledger import FILE, Ledger, entry_for
from sweep.spending.paid import differences
from sweep.store.sweeps import SweepFolder
from tests.accountants._mechanisms import mechanism
from tests.refusals import refused
from tests.sweep.sweeps import (
    ledger_of,
    settings_in,
    shared_figures,
    space_in,
    write_corpus,
)
from trainables import figures
from trainables.dp.accounting.certification import certify
from trainables.dp.accounting.releases import Gaussian, Parts

BASE = {
    "engine": "dp_sgd",
    "model": {"word_buckets": 64, "word_dim": 8, "char_dim": 4, "char_filters": 6}
    | {"hidden_size": 8, "num_layers": 1},
    "privacy": {"covers": "all", "noise_multiplier": 4.0, "delta": 1e-4},
    "training": {"epochs": 2, "expected_batch_size": 30, "num_workers": 1},
    "evaluation": {"attacks": ["loss_threshold"], "bootstrap_samples": 20},
}
VARIANTS = [{"name": "private", "axes": {"training.learning_rate": [0.01, 0.03]}}]


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    made = settings_in(tmp_path_factory.mktemp("covering"))
    return replace(made, tracking=False)


@pytest.fixture(scope="module")
def folder(settings):
    """A finished sweep of two trials."""
    space = space_in(settings.data_dir, base=BASE, variants=VARIANTS)
    data = {**write_corpus(settings.data_dir), "split": "hash"}
    space = space.model_copy(update={"base": {**BASE, "data": data}})
    with shared_figures(settings):
        prepared = prepare_space(space, settings=settings)
        runner.start(prepared, settings, command=["test"])
    return SweepFolder(settings.home / "toy")


def test_each_epoch_pays_for_training_and_for_an_evaluation(folder):
    entries = ledger_of(folder).of_sweep(folder.ledger_name)
    assert [entry.epochs for entry in entries] == [2, 2]
    for entry in entries:
        assert isinstance(entry.release, Parts)
        assert entry.release.split == "hash 1, 70:10:20, seed 0"
        [evaluations] = entry.release.held_out.steps
        assert evaluations.count == 2
        assert isinstance(evaluations, Gaussian)
    assert list(differences(folder, ledger_of(folder))) == []


def test_the_total_covers_every_record_at_the_price_of_training(folder):
    ledger = ledger_of(folder)
    entries = ledger.of_sweep(folder.ledger_name)
    [name] = ledger.datasets()
    spend = ledger.spend(name)
    trained = certify([e.release.training for e in entries], delta=1e-4)
    assert (spend.covers, spend.training_only) == ("all", ())
    assert spend.total.epsilon == pytest.approx(trained.epsilon, rel=1e-9)
    assert math.isfinite(spend.total.epsilon)
    costs = {part: each.epsilon for part, each in spend.by_part.items()}
    assert costs["training"] == spend.total.epsilon
    assert 0.8 * costs["training"] < costs["validation or test"] < costs["training"]


def test_a_sweep_that_covers_training_alone_ends_the_claim(folder, tmp_path):
    """Last of the entries: it chose by raw figures of the same records."""
    ledger = ledger_of(folder)
    [name] = ledger.datasets()
    other = entry_for(
        mechanism("dp_sgd", workers=1, epochs=1),
        dataset=name,
        sweep="raw@12345678",
        trial="t",
        epochs=1,
    )
    assert not other.covers_all
    copy = Ledger(tmp_path / FILE)
    for entry in (*ledger.of_sweep(folder.ledger_name), other):
        copy.charge(replace(entry, dataset="aaa"))
    spend = copy.spend("aaa")
    assert (spend.covers, spend.training_only) == ("training", ("raw@12345678",))


def test_the_best_trial_is_that_of_the_released_figure(folder):
    records = folder.records()
    shown = {record.plan.id: record.metrics["validation_errors"] for record in records}
    assert select.metric_of_choice(records) == "validation_errors"
    assert select.choose_one(records).plan.id == min(shown, key=shown.__getitem__)


def test_an_export_holds_covered_figures_alone(folder, tmp_path):
    best = select.choose_one(folder.records())
    place = export_trial(folder, best, tmp_path / "export")
    kept = json.loads((place / "metrics.json").read_text())
    assert "ser" in kept
    assert all(map(figures.is_covered, kept))
    card = json.loads((place / "privacy_card.json").read_text())
    assert card["covers"].startswith("every record of the file")
    assert card["sweep_total"]["epsilon"] >= card["epsilon"]


def test_a_public_report_has_covered_figures_and_no_durations(folder, tmp_path):
    made = write(folder, tmp_path / "report", epsilon_max=8.0, public=True)
    assert made.sweep.chosen_by == "validation_errors"
    for trial in made.sweep.trials:
        known = {name for name in trial.columns if figures.registry().get(name)}
        assert all(map(figures.is_covered, known))
        assert trial.number("seconds") is None
    assert made.sweep.seconds is None
    assert not made.sweep.spending.points
    for name, text in made.sweep.files.items():
        heads = text.splitlines()[0].split(",")
        raw = {head for head in heads if figures.registry().get(head)}
        assert all(map(figures.is_covered, raw)), name
        assert not any(head.startswith("seconds") for head in heads)


def test_raw_figures_and_released_ones_are_not_compared(folder):
    first, second = (comparison.side(folder.path.parent, "toy") for _ in range(2))
    [said] = comparison.sentences(comparison.compare(first, second))
    assert "it is not paired" in said
    fields = second.record.plan.fields
    raw = {**fields, "privacy": {**fields["privacy"], "covers": "training"}}
    plan = replace(second.record.plan, origin=raw)
    other = replace(second, record=replace(second.record, plan=plan))
    with refused("two trials with privacy.covers=all or two without"):
        comparison.compare(first, other)


def test_what_may_be_published_of_a_trial_is_covered(folder):
    [plan, _] = [record.plan for record in folder.records()]
    assert plan.may_publish("ser")
    assert plan.may_publish("validation_errors")
    assert not plan.may_publish("seconds")
    assert not plan.may_publish("utterances_per_second")
    assert not plan.may_publish("intent_accuracy")
