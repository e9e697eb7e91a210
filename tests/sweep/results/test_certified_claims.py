"""The base decides: with digits of `cache/figures.jsonl` changed by hand a plan may be
wrong, and the card, the ledger, the export and the public report are not. An export
checks each figure of its claim.
"""

import ast
import csv
import io
import json
import math
from dataclasses import asdict, fields, replace

import pytest
from rich.console import Console

from sweep.planning.accounting import Accounting
from sweep.planning.plan_total import total_of_plan
from sweep.results.export import export_trial, require_certified
from sweep.results.report_files import write as write_report
from sweep.results.select import epsilon_of
from sweep.results.tables.plan import plan_table
from sweep.runtime import runner
from sweep.spending.ledger import SELECTION, Entry
from tests.accountants._mechanisms import mechanism
from tests.refusals import refused
from tests.structure import ROOT
from tests.sweep.sweeps import (
    TOY,
    ledger_of,
    medium_grids,
    prepared_in,
    settings_in,
    write_corpus,
)
from tests.trials import run_alone
from trainables.cards.card import make, read
from trainables.cards.selected import of_selected
from trainables.config.calibrate import resolve
from trainables.config.trial import parse
from trainables.dp.accounting import certification
from trainables.dp.accounting.accountants import selection
from trainables.dp.accounting.accountants.selection import release_of
from trainables.dp.accounting.certification import certify
from trainables.dp.accounting.choose import account
from trainables.dp.accounting.releases import Number, release
from trainables.errors import InvalidData

POISSON = {"engine": "dp_sgd", "privacy.delta": 1e-5}
SPACE = {
    "base": {"training": {"epochs": 2, "expected_batch_size": 30, "num_workers": 2}},
    "variants": [
        {"name": "noise", "set": {**POISSON, "privacy.noise_multiplier": 1.5}},
        {
            "name": "target",
            "set": {**POISSON, "privacy.noise_multiplier": {"target_epsilon": 8}},
        },
        {"name": "edp", "set": {"engine": "edp_sgd", "privacy.noise_multiplier": 5.0}},
    ],
}


def lower(value):
    """A figure with its first digit changed: a fourth, and so every claim too low."""
    if isinstance(value, dict):
        return {name: lower(each) for name, each in value.items()}
    return value / 4 if isinstance(value, float) else value


def change(settings, of):
    """Change every figure that the cache has."""
    file = settings.cache_dir / "figures.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert rows
    changed = [
        json.dumps({"key": row["key"], "value": of(row["value"])}) for row in rows
    ]
    file.write_text("".join(f"{line}\n" for line in changed))


@pytest.fixture(scope="module", autouse=True)
def _medium_grids():
    with medium_grids():
        yield


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """The plan from a cache that was changed by hand, and the sweep that ran after
    it.
    """
    folder = tmp_path_factory.mktemp("swept")
    settings = replace(settings_in(folder), tracking=False)
    before = prepared_in(folder, **SPACE).plan
    change(settings, lower)
    planned = prepared_in(folder, **SPACE)
    for trial, true in zip(planned.plan.trials, before.trials, strict=True):
        assert trial.epsilon != pytest.approx(true.epsilon, rel=0.5), (
            "a plan may be wrong"
        )
    run = runner.start(planned, settings, function=TOY)
    return run.folder, {trial.id: trial for trial in before.trials}


def certified(trial):
    """The figures of a trial's mechanism, computed without a cache."""
    found = resolve(trial.config, num_records=90)[1]
    return found, account(found)


def test_the_cache_decides_no_card_no_ledger_no_export_and_no_report(swept, tmp_path):
    folder, before = swept
    for record in folder.records():
        assert record.status == "done", record.reason
        true, expected = certified(before[record.plan.id])
        assert record.privacy.mechanism["noise_multiplier"] == true.noise_multiplier
        assert record.plan.noise_multiplier == true.noise_multiplier, (
            "what it trained with"
        )
        for name, value in asdict(expected).items():
            assert getattr(record.privacy, name) == value, name
        assert epsilon_of(record) == expected.epsilon
        [entry] = [e for e in ledger_of(folder).of_sweep(folder.ledger_name)
                   if e.trial == record.plan.id]  # fmt: skip
        assert entry.release == release(true)
        target = export_trial(folder, record, tmp_path / record.plan.id)
        card = read(
            json.loads((target / "privacy_card.json").read_text()), where=target
        )
        assert {name: getattr(card, name) for name in asdict(expected)} == asdict(
            expected
        )
    write_report(folder, tmp_path / "report", epsilon_max=1e6, public=True)
    with (tmp_path / "report" / "trials.csv").open() as file:
        shown = {row["trial"]: row for row in csv.DictReader(file)}
    for record in folder.records():
        row, card = shown[record.plan.id], record.privacy
        assert float(row["epsilon"]) == card.epsilon
        assert float(row["noise_multiplier"]) == card.noise_multiplier


def test_a_trial_reads_no_figure_of_the_plans_cache(tmp_path):
    """Neither its noise nor its card, though the cache has both."""
    fields = {
        "data": write_corpus(tmp_path),
        "model": {"word_buckets": 64, "word_dim": 8, "char_dim": 4, "char_filters": 6}
        | {"hidden_size": 12, "num_layers": 1},
        "engine": "dp_sgd",
        "privacy": {"noise_multiplier": {"target_epsilon": 8}, "delta": 1e-3},
        "training": {"epochs": 1, "expected_batch_size": 30, "num_workers": 1},
        "evaluation": {"attacks": [], "bootstrap_samples": 0},
    }
    config, settings = parse(fields), settings_in(tmp_path)
    planned = Accounting(settings)(config)
    change(settings, lower)
    changed = Accounting(settings)(config)
    assert changed.mechanism.noise_multiplier == planned.mechanism.noise_multiplier / 4
    result = run_alone(
        config, tmp_path / "trial", data=tmp_path, cache=settings.cache_dir
    )
    assert (
        result.privacy.mechanism["noise_multiplier"]
        == planned.mechanism.noise_multiplier
    )
    expected = account(planned.mechanism)
    assert result.metrics["epsilon"] == result.privacy.epsilon == expected.epsilon <= 8
    for name, figure in asdict(expected).items():
        assert getattr(result.privacy, name) == figure


def test_nothing_but_planning_reads_the_cache():
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in ("trainables", "sweep", "dashboards")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and "figure_cache" in str(node.module)
    }
    assert found == {"sweep/planning/accounting.py", "sweep/planning/plan_total.py"}


GARBAGE = [
    *(
        None,
        True,
        3,
        -1.0,
        0.0,
        math.nan,
        math.inf,
        "8",
        "eight",
        [],
        [8.0],
        {},
        {"epsilon": 1.0},
    ),
    {"epsilon": "eight"},
    [[1.0] * 3] * 3,
]


@pytest.mark.parametrize("garbage", range(len(GARBAGE)))
def test_a_cache_of_garbage_is_computed_again(garbage, tmp_path):
    settings = settings_in(tmp_path)
    expected = prepared_in(tmp_path, **SPACE).plan
    total = total_of_plan(expected, account=Accounting(settings))
    change(settings, lambda value: GARBAGE[garbage])
    found = prepared_in(tmp_path, **SPACE).plan
    if GARBAGE[garbage] in (True, 3, "8"):  # a number is a possible noise multiplier
        assert len(found.trials) == len(expected.trials)
        return
    assert found == expected
    assert total_of_plan(found, account=Accounting(settings)) == total


@pytest.mark.parametrize("garbage", [None, "x", [], {}, -1.0, math.nan])
def test_a_field_of_garbage_never_ends_a_plan(garbage, tmp_path):
    """Each field of the figures in turn; a possible figure is shown, however wrong."""
    settings = settings_in(tmp_path)
    prepared = prepared_in(tmp_path, **SPACE)
    total_of_plan(prepared.plan, account=Accounting(settings))
    file = settings.cache_dir / "figures.jsonl"
    kept = file.read_text()
    names = [field.name for field in fields(certification.Certificate)]
    for name in {*asdict(account(mechanism(epochs=1))), *names}:
        file.write_text(kept)
        change(
            settings, lambda v, n=name: {**v, n: garbage} if isinstance(v, dict) else v
        )
        plan = prepared_in(tmp_path, **SPACE).plan
        with Console(file=io.StringIO()) as console:
            console.print(plan_table(plan, drawn_from=False))
        total_of_plan(plan, account=Accounting(settings))


CLAIM = ("epsilon", "epsilon_replace_one", "epsilon_rdp", "max_tpr_1pct", "max_tpr_01pct",
         "max_advantage", "gaussian_mu", "delta", "noise_multiplier", "epsilon_paper")  # fmt: skip
BUILT = {
    "poisson": mechanism("dp_sgd", epochs=1, noise_multiplier=2.0),
    "shuffle": mechanism(epochs=1, noise_multiplier=20.0),
}


@pytest.mark.parametrize("name", CLAIM)
@pytest.mark.parametrize("built", BUILT)
def test_every_figure_of_a_claim_is_certified(built, name, tmp_path):
    card = make(BUILT[built], account(BUILT[built]), trial_id="t", corpus="atis")
    require_certified(card, tmp_path)
    value = getattr(card, name)
    if value is None:  # the paper's figure of another engine
        with refused(
            f"to claim {name} none, which its mechanism costs, got 8", InvalidData
        ):
            require_certified(card.model_copy(update={name: 8.0}), tmp_path)
        return
    for share in (1 - 1e-7, 1 + 1e-3):  # another machine, an older and looser bound
        require_certified(card.model_copy(update={name: value * share}), tmp_path)
    for share in (0.1, 0.9999, 1.05, 10.0):
        changed = card.model_copy(update={name: value * share})
        with refused(
            f"to claim {name} {value:.6g}, which its mechanism costs, got", InvalidData
        ):
            require_certified(changed, tmp_path)


def test_what_has_no_finite_epsilon_claims_no_bound(tmp_path):
    built = mechanism("sgd", epochs=1)
    card = make(built, account(built), trial_id="t", corpus="atis")
    require_certified(card, tmp_path)
    for name in ("epsilon_replace_one", "epsilon_rdp", "gaussian_mu", "max_advantage"):
        with refused(f"to claim {name} (inf|1), which", InvalidData):
            require_certified(card.model_copy(update={name: 0.5}), tmp_path)


def test_the_claim_of_a_private_selection_is_that_of_its_charge(tmp_path):
    """What the mechanism costs alone is less than the selection."""
    built = BUILT["poisson"]
    chosen = release_of([release(built)], number=Number(law="geometric", mean=4.0))
    claim = selection.claim_of(chosen, delta=1e-5)
    price = {
        "law": "geometric",
        "mean": 4.0,
        "delta": 1e-5,
        "epsilon_selected": claim.epsilon,
        "epsilon_composed": 99.0,
        **asdict(claim.meaning),
    }
    card = of_selected(make(built, account(built), trial_id="t", corpus="atis"), price)
    entry = Entry(
        dataset="d", sweep="s@1", trial=SELECTION, epochs=1, delta=1e-5, release=chosen
    )
    require_certified(card, tmp_path, selected=entry)
    for name in (
        "epsilon",
        "epsilon_rdp",
        "epsilon_one_trial",
        "max_tpr_1pct",
        "max_advantage",
        "gaussian_mu",
    ):
        changed = card.model_copy(update={name: getattr(card, name) * 0.99})
        with refused(f"to claim {name} .*which its mechanism costs", InvalidData):
            require_certified(changed, tmp_path, selected=entry)
    assert certify(chosen, delta=1e-5).epsilon == card.epsilon
