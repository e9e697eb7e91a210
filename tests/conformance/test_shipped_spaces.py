"""Every shipped space runs to its end on Ray, with a tiny trial, or one a variant, and
is shown, reported and exported. A new file in `search_spaces/` inherits this test.
"""

import csv
import importlib
import json

import pytest
import yaml
from safetensors import safe_open

from search_spaces import space as spaces
from search_spaces.expansion import expand
from search_spaces.files import document_in, locate, shipped_spaces
from search_spaces.paths import set_path
from sweep import cli
from sweep.results.select import by_corpus
from sweep.runtime.ray_metrics import in_ascii
from sweep.settings import from_environment
from sweep.store.manifest import require_whole
from sweep.store.sweeps import open_sweep
from tests.libraries import IGNORED
from tests.sweep.ray_metrics import own_ray
from tests.sweep.sweeps import make_store, settings_in
from tests.tasks._pairs import write_pairs
from trainables.config import objectives
from trainables.config.mechanism import claims_privacy
from trainables.config.trial import parse

pytestmark = IGNORED
# What is passed to --set where a space sets the field, or sets it to this value.
SMALL = {
    "resources": {
        "resources.executor": "gang",
        "resources.workers": 1,
        "resources.slots": 1,
    },
    "task=nlu": {
        "data.name": "communication",
        "data.num_utterances": 1_000,
        "data.max_records": 32,
        "evaluation.attacks": [],
        "evaluation.bootstrap_samples": 0,
        "training.epochs": 1,
        "training.steps": 1,
    },
    "data.split=bernoulli": {"evaluation.attacks": ["loss_threshold", "lira", "rmia"]},
    "task=synthesis": {
        "data.path": "pairs",
        "training.epochs": 2,
        "synthesis.public_fraction": 0.25,
        "synthesis.vocabulary_size": 300,
        "synthesis.max_tokens": 40,
        "synthesis.pretrain_epochs": 1,
        "synthesis.parser_epochs": 1,
        "synthesis.measuring_parser_epochs": 0,
        "synthesis.num_generated": 6,
    },
    "model.name=bert": {"model.num_layers": 1, "model.num_heads": 2},
    "model.name=causal_lm": {
        "model.hidden_size": 16,
        "model.num_layers": 1,
        "model.num_heads": 2,
        "model.intermediate_size": 24,
    },
    "model.name=clc": {
        "model.word_vectors": "hashed",
        "model.word_buckets": 64,
        "model.word_dim": 8,
        "model.char_filters": 4,
        "model.hidden_size": 8,
        "model.num_layers": 1,
    },
    "training.expected_batch_size": {"training.expected_batch_size": 8},
    "training.physical_batch_size": {"training.physical_batch_size": 8},
    "synthesis.parse_epochs": {"synthesis.parse_epochs": 1},
    "synthesis.only_function": {"synthesis.only_function": "CreateEvent"},
    "repeats": {"repeats": 1},
    "search.strategy=private_selection": {
        "search.num_trials": {"law": "geometric", "mean": 1.5}
    },
    "search.strategy=tpe": {"search.num_samples": 2},
    # Its private trials count steps and its baselines epochs; --set reaches both.
    "name=paper_models": {"privacy.sampling": "poisson"},
}


def with_one_point(name):
    """The document of a space, each listed axis with its first value."""
    document = document_in(locate(name))
    for part in (document, *document.get("variants", [])):
        for path, axis in part.get("axes", {}).items():
            if isinstance(axis, list):
                part["axes"][path] = axis[:1]
            elif "choice" in axis:
                part["axes"][path] = {"choice": axis["choice"][:1]}
    return document


def fields_in(part, prefix=""):
    """What a part of a space sets, by dotted path."""
    for name, value in part.items():
        yield f"{prefix}{name}", value
        if isinstance(value, dict):
            yield from fields_in(value, f"{prefix}{name}.")


def small(document):
    """Overrides that leave little to train, by dotted path."""
    base, chosen = {"task": "nlu", **document["base"]}, {}
    for part in (
        document,
        base,
        *(each.get("set", {}) for each in document.get("variants", [])),
    ):
        for path, value in fields_in(part):
            chosen |= SMALL.get(path, {}) | SMALL.get(f"{path}={value}", {})
    chosen.pop(
        "training.epochs" if "steps" in base["training"] else "training.steps", None
    )
    return chosen


def small_space(name):
    document = with_one_point(name)
    return spaces.read(document, overrides=small(document))


def points_of(space, *, every):
    """All points of a space, or its last with a guarantee."""
    points = expand(space).points
    private = [point for point in points if claims_privacy(point.config.engine)]
    return points if every else (private or points)[-1:]


def joined(name, several, *, every):
    """The document of a space with the points of several, under their names, and with
    the search of the one that chooses its trials by their results: the points of the
    others are its baselines.
    """
    adaptive = [space for space in several if space.search.is_adaptive]
    fixed = [
        {
            "name": f"{space.name}: {point.variant}",
            "baseline": point.baseline or bool(adaptive),
            "set": point.config.model_dump(mode="json"),
            "axes": {path: [value] for path, value in point.values.items()},
        }
        for space in several
        for point in points_of(space, every=every)
    ]
    document = {"name": name, "base": {"task": several[0].task}, "variants": fixed}
    for space in adaptive:
        own, given = space.document(), space.base
        for path, value in space.override.items():
            given = set_path(given, path, value)
        searched = {"name": f"{space.name}: chosen", "set": given, "axes": own["axes"]}
        document |= {"variants": [*fixed, searched], "search": own["search"]}
    return document | {"resources": {"executor": "gang", "workers": 1, "slots": 1}}


@pytest.fixture(scope="module")
def cluster():
    with own_ray() as started:
        yield started


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a home and little data."""
    folder = tmp_path_factory.mktemp("spaces")
    write_pairs(folder, training=48, human=20)
    make_store(settings_in(folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("SWEEP_HOME", str(folder / "home"))
        patch.setenv("SWEEP_DATA_DIR", str(folder))
        yield folder


@pytest.mark.parametrize(
    "which", ["last", pytest.param("every", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("task", objectives.tasks())
def test_the_shipped_spaces_run_in_one_sweep_and_its_results_can_be_seen(
    task, which, place, cluster, capsys
):
    """On Ray: a sweep for each would spend 25 s of a processor on starts of Ray."""
    several = [
        space for space in map(small_space, shipped_spaces()) if space.task == task
    ]
    document = joined(f"{task}-{which}", several, every=which == "every")
    trials = run_and_look(document, {}, place, cluster, capsys)
    ran = [trial["config"] for trial in trials]
    *fixed, last = document["variants"]
    chosen = sum(trial["variant"] == last["name"] for trial in trials)
    assert chosen == 2 if "search" in document else last["set"] in ran
    assert all(variant["set"] in ran for variant in fixed)


# Its points run above, and what it says beside them needs no Ray.
@pytest.mark.parametrize(
    "name",
    [
        name
        for name in shipped_spaces()
        if document_in(locate(name)).keys() & {"search", "budget", "constraints"}
    ],
)
def test_a_shipped_space_runs_and_its_results_can_be_seen(name, place, capsys):
    document = {**with_one_point(name), "name": f"{name}-local"}
    overrides = {**small(document), "resources.executor": "local"}
    run_and_look(document, overrides, place, None, capsys)


def run_and_look(document, overrides, place, cluster, capsys):
    """Run a space, and look at its results in every way; its trials."""

    def sweep(*words):
        code = cli.run(words)
        out, err = capsys.readouterr()
        assert code == 0, err[-3_000:]
        assert "Traceback" not in err
        return out

    name = document["name"]
    (place / f"{name}.yaml").write_text(yaml.safe_dump(document))
    sets = [f"--set={path}={json.dumps(value)}" for path, value in overrides.items()]
    ran = json.loads(sweep("run", f"{name}.yaml", "--json", *sets))
    trials = {trial["id"]: trial for trial in ran["trials"]}
    assert {trial["status"] for trial in trials.values()} == {"done"}
    assert ran["tracking_problem"] is None
    if not name.endswith("-local"):
        check_live_metrics(cluster.recorded(name), ran)
    check_mlflow(name, ran)
    shown = sweep("show", name)
    assert all(trial[:6] in shown for trial in trials)
    records = open_sweep(from_environment().home, name).records()
    for corpus, alike in by_corpus(records).items():
        folder = f"{name}-{corpus.split()[0]}"
        sweep("report", name, "--data", corpus, "--output", folder)
        check_report(place / folder, {record.plan.id for record in alike})
    of_a_space = {}
    for trial in ran["trials"]:
        of_a_space.setdefault(trial["variant"].rpartition(": ")[0], []).append(trial)
    for several in of_a_space.values():
        chosen = next(
            (t for t in several if t["epsilon"] not in (0, "inf")), several[0]
        )
        folder = f"{name}-{chosen['id']}"
        sweep("export", name, "--trial", chosen["id"], "--to", folder)
        check_export(place / folder, chosen)
    return list(trials.values())


def check_live_metrics(values, ran):
    """Ray serves each trial; the number of trials of a private selection is a
    secret.
    """
    trials = ran["trials"]
    if "selection" in ran:
        assert values == {}
        return
    assert values["sweep_trials"][ran["name"], "done"] == len(trials)
    assert {(trial, label) for _, trial, label, _ in values["sweep_epochs_done"]} == {
        (trial["id"], in_ascii(trial["name"])) for trial in trials
    }


def check_mlflow(name, ran):
    """Each trial has one run, with the final figures."""
    client = importlib.import_module("mlflow").MlflowClient(
        from_environment().tracking_uri
    )
    experiment = client.get_experiment_by_name("sweeps").experiment_id
    runs = client.search_runs(
        [experiment], f"tags.`sweep.name` = '{name}' and tags.`sweep.trial` != ''"
    )
    assert sorted(run.data.tags["sweep.trial"] for run in runs) == sorted(
        t["id"] for t in ran["trials"]
    )
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert all(run.data.metrics for run in runs)


def check_report(folder, trials):
    """A page, a table with a row for each trial, charts that are images."""
    page = (folder / "report.html").read_text()
    assert all(trial[:6] in page for trial in trials)
    with (folder / "trials.csv").open() as file:
        assert {row["trial"] for row in csv.DictReader(file)} == trials
    images = list((folder / "charts").glob("*.svg"))
    assert images
    assert all("<svg" in image.read_text() for image in images)


def check_export(folder, trial):
    """A whole folder whose config is the trial's, whose card has its epsilon, with
    weights.
    """
    require_whole(folder)
    exported = parse(yaml.safe_load((folder / "config.yaml").read_text()))
    assert exported.model_dump(mode="json") == trial["config"]
    assert (
        json.loads((folder / "privacy_card.json").read_text())["epsilon"]
        == trial["epsilon"]
    )
    weights = sorted(folder.glob("model/**/*.safetensors"))
    assert weights
    for path in weights:
        with safe_open(path, framework="numpy") as tensors:
            assert tensors.keys()
