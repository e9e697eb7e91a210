"""An encoder that was exported here is no public one for the records that it was
trained on.
"""

import json
import math
import shutil
from dataclasses import replace

import pytest
import torch
from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent
from dp_accounting.pld import PLDAccountant
from safetensors.torch import load_file, save_file

from search_spaces import space as spaces
from sweep.planning.ledger_check import check
from sweep.planning.plan import require_trials
from sweep.planning.prepare import prepare_space
from sweep.planning.pretraining import refuse_exported
from sweep.results.export import card_of, export_trial
from sweep.runtime import runner
from sweep.spending import exports
from sweep.spending.ledger import FILE, Ledger
from sweep.store.sweeps import SweepFolder
from tests.accountants._mechanisms import mechanism
from tests.encoders import family_folders
from tests.lines import write_lines
from tests.refusals import refused
from tests.sweep.sweeps import settings_in, shared_figures
from tests.sweep.untracked import leave_out_mlflow
from trainables.cards.card import STARTING_WEIGHTS
from trainables.dp.accounting.choose import account
from trainables.dp.accounting.releases import Start, release
from trainables.errors import InvalidData
from trainables.models.encoders.exported import tensor_digests
from trainables.models.encoders.origin import ORIGIN, origin_of

N, BATCH, EPOCHS = 80, 20, 2
NOISE, NEXT_NOISE, DELTA = 1.0, 2.0, 1e-3
STEPS = EPOCHS * N // BATCH
NOT_FINITE = "trial on them without a finite epsilon; export one"


def corpus(folder, name, *, first):
    """Data fields of records that differ from those of another `first` number."""
    rows = [
        {
            "tokens": ["call", f"person{first + n}", "now"],
            "tags": ["O", "B-contact", "O"],
            "intent": "call" if n % 2 else "text",
        }
        for n in range(170)
    ]
    path, schema = write_lines(folder / f"{name}.jsonl", rows), folder / "schema.json"
    schema.write_text(json.dumps({"intents": ["call", "text"], "slots": ["contact"]}))
    return {
        "name": "json_lines",
        **{"path": str(path), "schema_file": str(schema), "num_records": N},
    }


def base(data, encoder, *, noise, engine="dp_sgd", **model):
    """Fields of a trial of a small BERT, or of heads on its features."""
    fields = {
        "engine": engine,
        "data": data,
        "model": {"name": "bert", "encoder": str(encoder), "num_layers": 2, **model},
        "training": {"epochs": EPOCHS, "expected_batch_size": BATCH, "num_workers": 1},
        "evaluation": {"attacks": [], "bootstrap_samples": 0},
        "privacy": {"delta": DELTA},
    }
    if engine == "dp_sgd":
        fields["privacy"] |= {"noise_multiplier": noise, "sampling": "poisson"}
    if fields["model"]["name"] != "bert":
        del fields["model"]["num_layers"]
    return fields


def prepared(folder, fields, *, name="next", **space):
    document = {
        "name": name,
        "base": fields,
        "resources": {"executor": "local"},
        **space,
    }
    return prepare_space(spaces.parse(document), settings=settings_in(folder))


def trained(folder, fields, *, name):
    """The folder of a sweep of one finished trial."""
    settings = settings_in(folder)
    with pytest.MonkeyPatch.context() as patch, shared_figures(settings):
        leave_out_mlflow(patch)
        found = runner.start(
            prepared(folder, fields, name=name), settings, command=["test"]
        )
    [record] = found.folder.records()
    assert record.status == "done", record.reason
    return found.folder


def exported(folder, fields, *, name):
    """The encoder of the export of such a trial."""
    sweep = trained(folder, fields, name=name)
    return (
        export_trial(sweep, sweep.records()[0], folder / f"{name} out")
        / "model/transformers"
    )


def planned(folder, fields, **space):
    """The one trial of a plan."""
    with shared_figures(settings_in(folder)):
        [trial] = prepared(folder, fields, **space).plan.trials
    return trial


def refuse(words, folder, fields, **space):
    """Fails unless the one trial of the plan is refused in one line that matches
    `words`, and the sweep with it.
    """
    with shared_figures(settings_in(folder)), refused(words):
        require_trials(prepared(folder, fields, **space).plan)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a home, a public encoder, two corpora and two exports, of which one
    is without noise.
    """
    folder = tmp_path_factory.mktemp("made")
    family_folders.write(folder / "public", "bert")
    mine = corpus(folder, "mine", first=0)
    corpus(folder, "other", first=1_000)
    exported(folder, base(mine, folder / "public", noise=NOISE), name="private")
    exported(folder, base(mine, folder / "public", noise=0, engine="sgd"), name="plain")
    return folder


@pytest.fixture
def home(made, tmp_path):
    """A copy of it, and the data fields of its corpora."""
    shutil.copytree(made, tmp_path / "home of a test")
    return tmp_path / "home of a test"


def data_of(folder, name):
    place = {
        "path": str(folder / f"{name}.jsonl"),
        "schema_file": str(folder / "schema.json"),
    }
    return {"name": "json_lines", **place, "num_records": N}


def encoder_in(folder, name):
    return folder / f"{name} out" / "model" / "transformers"


def outside(*noises, relation=NeighboringRelation.ADD_OR_REMOVE_ONE):
    """Epsilon of trainings with these noise multipliers together, by the library
    alone.
    """
    found = PLDAccountant(relation)
    for noise in noises:
        found.compose(PoissonSampledDpEvent(BATCH / N, GaussianDpEvent(noise)), STEPS)
    return found.get_epsilon(DELTA)


def test_a_finite_export_is_composed_on_plan_card_ledger_and_the_next_export(home):
    mine, encoder = data_of(home, "mine"), encoder_in(home, "private")
    origin = origin_of(encoder)
    assert origin.epsilon == pytest.approx(outside(NOISE), rel=2e-3)
    assert origin.delta == DELTA
    fields = base(mine, encoder, noise=NEXT_NOISE)
    together = outside(NOISE, NEXT_NOISE)
    assert planned(home, fields).epsilon == pytest.approx(together, rel=5e-3)
    assert planned(home, fields).epsilon > together * (1 - 1e-3)
    sweep = trained(home, fields, name="next")
    [record] = sweep.records()
    card = card_of(sweep, record)
    for figure in (card.epsilon, record.metrics["epsilon"], card.sweep_total.epsilon):
        assert together * (1 - 1e-3) < figure == pytest.approx(together, rel=5e-3)
    replaced = outside(NOISE, NEXT_NOISE, relation=NeighboringRelation.REPLACE_ONE)
    assert card.epsilon_replace_one == pytest.approx(replaced, rel=2e-2)
    assert "together with the exports that they start from" in card.guarantee
    assert any(
        "an export that was trained on records" in line for line in card.warnings
    )
    assert not any(line.startswith(STARTING_WEIGHTS) for line in card.public)
    assert "earlier export, of epsilon" in card.provenance
    ledger = Ledger(home / "home" / FILE)
    [name] = ledger.datasets()
    every = outside(NOISE, NEXT_NOISE)
    accounted = ledger.spend(name, delta=DELTA).accounted
    assert accounted.epsilon == pytest.approx(every, rel=5e-3), "each training once"
    again = export_trial(sweep, record, home / "next out") / "model" / "transformers"
    assert origin_of(again).epsilon == card.epsilon
    third = planned(home, base(mine, again, noise=NEXT_NOISE))
    assert third.epsilon == pytest.approx(
        outside(NOISE, NEXT_NOISE, NEXT_NOISE), rel=5e-3
    )


def test_an_export_without_noise_is_refused_for_its_records(home):
    mine, encoder = data_of(home, "mine"), encoder_in(home, "plain")
    for engine in ("dp_sgd", "sgd"):
        fields = base(mine, encoder, noise=1.0, engine=engine)
        refuse(
            "trial on them without a finite epsilon; export one that was trained",
            home,
            fields,
        )
    joined = base(mine, "", noise=1.0, name="features", layers=[0, 1], prior="none")
    joined["model"]["encoder"] = [str(home / "public"), str(encoder)]
    refuse(NOT_FINITE, home, joined)
    refuse(NOT_FINITE, home, base(mine, encoder, noise=1.0, name="lora"))


def test_on_other_records_an_export_is_free(home):
    """And what is trained from it has still learnt from its records."""
    other = data_of(home, "other")
    public = planned(home, base(other, home / "public", noise=NEXT_NOISE))
    assert public.epsilon == pytest.approx(outside(NEXT_NOISE), rel=5e-3)
    for name in ("private", "plain"):
        found = planned(home, base(other, encoder_in(home, name), noise=NEXT_NOISE))
        assert found.runs
        assert found.epsilon == public.epsilon
    from_plain = base(other, encoder_in(home, "plain"), noise=0, engine="sgd")
    again = exported(home, from_plain, name="next")
    refuse(NOT_FINITE, home, base(data_of(home, "mine"), again, noise=NEXT_NOISE))


def test_a_trial_without_a_step_has_the_epsilon_of_what_it_reads(home):
    """And nothing to charge: the export's own trial is charged."""
    fields = base(
        data_of(home, "mine"), "", noise=0, engine="untrained", name="features"
    )
    fields["model"] |= {"encoder": ["dialogues", str(encoder_in(home, "private"))]}
    fields["model"] |= {"layers": [[2], [1]]}
    del fields["training"], fields["privacy"]
    sweep = trained(home, fields, name="next")
    [record] = sweep.records()
    card = card_of(sweep, record)
    at = card.delta
    alone = PLDAccountant()
    alone.compose(PoissonSampledDpEvent(BATCH / N, GaussianDpEvent(NOISE)), STEPS)
    assert record.plan.epsilon == pytest.approx(alone.get_epsilon(at), rel=5e-3)
    assert (
        card.epsilon
        == record.metrics["epsilon"]
        == pytest.approx(record.plan.epsilon, rel=5e-3)
    )
    assert "No record was trained on" not in card.guarantee
    assert check(settings_in(home)) == []


def changed(encoder, how):
    """A copy of an exported encoder that states nothing, or something else, of its
    export.
    """
    copy = encoder.parents[2] / "another name"
    shutil.copytree(encoder, copy)
    file, weights = copy / ORIGIN, copy / "model.safetensors"
    if how == "edited":
        file.write_text(json.dumps({"id": "mine", "epsilon": 0.1, "delta": 1e-9}))
    elif how == "damaged":
        file.write_text("{")
    elif how == "removed":
        file.unlink()
    elif (
        how == "saved again"
    ):  # as by a model with other heads, which adds and renames tensors
        file.unlink()
        state = load_file(weights)
        state = {f"bert.{name}": tensor for name, tensor in state.items()}
        save_file({**state, "more": next(iter(state.values())) * 2}, weights)
    elif how == "other weights":
        save_file(
            {name: tensor * 2 for name, tensor in load_file(weights).items()}, weights
        )
    return copy


CHANGES = ["renamed", "edited", "damaged", "removed", "saved again", "other weights"]


@pytest.mark.parametrize("how", CHANGES)
def test_the_home_decides_and_no_name_or_file_beside_the_weights(how, home):
    encoder = changed(encoder_in(home, "plain"), how)
    found = exports.Exports(home / "home").matching(str(encoder))
    assert [each.id for each in found] == [origin_of(encoder_in(home, "plain")).id]
    refuse(NOT_FINITE, home, base(data_of(home, "mine"), encoder, noise=1.0))


def test_weights_in_the_other_format_are_the_same(home):
    copy = changed(encoder_in(home, "plain"), "removed")
    state = load_file(copy / "model.safetensors")
    torch.save(state, copy / "pytorch_model.bin")
    before = tensor_digests(copy)
    (copy / "model.safetensors").unlink()
    assert tensor_digests(copy) == before != {}


def test_public_weights_are_of_no_export(home):
    """Frozen ones in an export among them; and an encoder that ships is not
    compared.
    """
    fields = base(
        data_of(home, "mine"), home / "public", noise=0, engine="sgd", trained="biases"
    )
    exported(home, fields, name="biases")
    known = exports.Exports(home / "home")
    assert known.matching(str(home / "public")) == []
    assert known.matching("dialogues") == []
    [own] = known.matching(str(encoder_in(home, "biases")))
    assert own.id == origin_of(encoder_in(home, "biases")).id


@pytest.mark.parametrize("how", ["renamed", "edited", "damaged", "an earlier version"])
def test_an_export_of_another_home_is_refused_on_private_data(how, home, made):
    """And where the home has lost its log; on a public corpus it is not asked for."""
    for file in (home / "home").glob("ledger.exports.*"):
        file.unlink()
    encoder = encoder_in(home, "private")
    if how == "an earlier version":
        (encoder / ORIGIN).unlink()
    else:
        encoder = changed(encoder, how)
    fields = base(data_of(home, "mine"), encoder, noise=1.0)
    refuse(
        "export that this home does not know: .* set SWEEP_HOME to the home",
        home,
        fields,
    )
    fields["data"] = {"name": "health", "num_utterances": 1_000}
    assert planned(home, fields).runs


def test_hashes_or_lines_that_are_lost_refuse(home):
    fields = base(data_of(home, "mine"), encoder_in(home, "private"), noise=1.0)
    log, records = home / "home" / exports.FILE, home / "home" / "ledger.records"
    kept = log.read_bytes()
    log.write_bytes(kept.splitlines(keepends=True)[0])
    with refused("2 lines were written and 1 are there", InvalidData):
        prepared(home, fields)
    log.write_bytes(kept)
    for file in records.iterdir():
        file.unlink()
    with refused(
        "expected the hashes of an exported encoder's training records", InvalidData
    ):
        prepared(home, fields)


def test_budgets_see_the_composition(home):
    """Of a trial, and of a sweep, in which the export counts once."""
    fields = base(data_of(home, "mine"), encoder_in(home, "private"), noise=NEXT_NOISE)
    alone, together = outside(NEXT_NOISE), outside(NOISE, NEXT_NOISE)
    budget = {"epsilon": (alone + together) / 2}
    refuse(r"exceeds budget\.epsilon", home, fields, budget=budget)
    assert planned(home, fields, budget={"epsilon": together * 1.02}).runs
    seeds = {"axes": {"training.seed": [0, 1]}}
    both = outside(NOISE, NEXT_NOISE, NEXT_NOISE)
    with shared_figures(settings_in(home)):
        plan = prepared(home, fields, **seeds, budget={"total": both * 1.02}).plan
        assert all(trial.runs for trial in plan.trials)
        plan = prepared(home, fields, **seeds, budget={"total": both * 0.98}).plan
    assert [trial.runs for trial in plan.trials] == [True, False]


def test_neither_pretraining_nor_a_private_selection_starts_from_an_export(home):
    settings = settings_in(home)
    for encoder in (
        encoder_in(home, "private"),
        changed(encoder_in(home, "plain"), "removed"),
    ):
        with refused("which was exported from a trial: pretraining has no epsilon"):
            refuse_exported(str(encoder), settings)
    refuse_exported(str(home / "public"), settings)
    refuse_exported("dialogues", settings)
    fields = base(data_of(home, "mine"), encoder_in(home, "private"), noise=2.0)
    search = {
        "strategy": "private_selection",
        "num_trials": {"law": "geometric", "mean": 2},
    }
    with (
        shared_figures(settings),
        refused("public encoder with strategy private_selection"),
    ):
        prepared(
            home, fields, search=search, axes={"training.learning_rate": [0.1, 0.2]}
        )


def test_an_export_states_an_id_and_no_hash(home):
    """Its id is drawn, so it says nothing of the records; the same weights keep
    theirs.
    """
    sweep = SweepFolder(home / "home" / "private")
    [record] = sweep.records()
    first, second = (
        export_trial(sweep, record, home / f"copy {n}") / "model" / "transformers"
        for n in (1, 2)
    )
    stated = json.loads((first / ORIGIN).read_text())
    assert set(stated) == {"id", "epsilon", "delta"}
    assert (first / ORIGIN).read_bytes() == (second / ORIGIN).read_bytes()
    assert len(stated["id"]) == 32
    assert stated["id"] != origin_of(encoder_in(home, "plain")).id
    lines = (home / "home" / exports.FILE).read_text()
    texts = " ".join(
        path.read_text(errors="replace")
        for path in first.rglob("*.json")
        if path.name != ORIGIN
    )
    for entry in map(json.loads, lines.splitlines()):
        hidden = [*entry["tensors"], *(part["dataset"] for part in entry["learnt"])]
        assert not any(each in texts for each in hidden)


def test_relations_and_units_of_both_trainings_are_composed():
    """Held against the library: a shuffled export has no guarantee for one record more
    or less.
    """
    shuffled = mechanism("edp_sgd", noise_multiplier=4.0, epochs=3, workers=1)
    own = mechanism("dp_sgd", noise_multiplier=2.0, epochs=2, workers=1)
    start = Start(source="a", releases=(release(shuffled),))
    found = account(replace(own, starts=(start,)))
    expected = PLDAccountant(NeighboringRelation.REPLACE_ONE)
    # The library doubles the sensitivity of a Gaussian where a record is replaced.
    expected.compose(GaussianDpEvent(2 * shuffled.effective_noise_multiplier_at(0)), 3)
    step = PoissonSampledDpEvent(own.sample_rate, GaussianDpEvent(2.0))
    expected.compose(step, own.steps)
    assert found.epsilon == pytest.approx(expected.get_epsilon(own.delta), rel=1e-2)
    assert found.epsilon >= expected.get_epsilon(own.delta) * (1 - 1e-3)
    assert found.neighboring_relation == "replace_one"
    assert found.epsilon_paper is None
    grouped = replace(own, unit="group", max_records_per_group=2, starts=(start,))
    assert math.isinf(account(grouped).epsilon)
