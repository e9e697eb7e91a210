import pytest

from tests.refusals import refused
from tests.trials import run_alone
from trainables import catalogue, figures
from trainables.config import objectives
from trainables.config.trial import parse
from trainables.tasks import Task

_NAMES = catalogue.names("tasks")


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("shelf", ["datasets", "models"])
def test_there_is_an_entry_for_it_on_each_shelf(name, shelf):
    kind = getattr(catalogue.about("tasks", name), shelf)
    assert kind is not None
    assert catalogue.names(shelf, kind=kind)


@pytest.mark.parametrize("name", _NAMES)
def test_some_engine_trains_it_with_entries_of_its_kinds(name):
    engines = catalogue.names("engines")
    able = [e for e in engines if name in catalogue.entry("engines", e).tasks]
    assert able
    data, model = (
        catalogue.names(shelf, kind=getattr(catalogue.about("tasks", name), shelf))[0]
        for shelf in ("datasets", "models")
    )
    made = parse(
        {
            "task": name,
            "engine": able[0],
            "data": {"name": data},
            "model": {"name": model},
        }
    )
    assert parse(made.model_dump(mode="json")) == made
    for other in set(_NAMES) - {name}:
        with refused(rf"data\.name to be one of .* with task={other}"):
            parse({**made.model_dump(mode="json"), "task": other})


COUNTING = '''"""Count the records: a task that trains nothing."""

from trainables.result import TrialResult


def run(config, *, folder, comm, report, data_dir, cache_dir):
    return TrialResult(
        trial_id=config.id,
        metrics={"num_utterances": 3.0},
        privacy=None,
        epochs_done=0,
        stopped_early=False,
        seconds=0.0,
    )
'''
TASK = Task(
    datasets="frames",
    models="frames",
    best_by="duplicates_dropped",
    otherwise_by="duplicates_dropped",
    after_an_epoch="duplicates_dropped",
    headline="duplicates_dropped",
)
ENGINE = '''
from typing import Annotated, Literal

from trainables.dp.engines.configs import ChartStyle, PrivacyConfig
from trainables.fields import INTERNAL_DISCRIMINATOR


class IdleConfig(PrivacyConfig):
    """Nothing to step."""

    kind = "plain"
    component = "builtins:object"
    tasks = ("counting",)
    style = ChartStyle(label="None", light="#000000", dark="#ffffff")

    engine: Annotated[Literal["idle"], INTERNAL_DISCRIMINATOR] = "idle"
'''


@pytest.mark.parametrize("name", _NAMES)
def test_what_a_task_is_after_is_a_registered_figure(name):
    names = {
        *objectives.quality(name),
        objectives.after_an_epoch(name),
        objectives.headline(name),
    }
    assert all(figures.registry()[each].task in (None, name) for each in names)
    assert figures.registry()[objectives.after_an_epoch(name)].per_epoch
    assert all(figures.registry()[each].is_public for each in names)


def test_a_new_task_is_found_typed_and_run(drop_in, tmp_path):
    drop_in("tasks", "counting", COUNTING, TASK)
    drop_in("engines", "idle", ENGINE, "IdleConfig")
    assert objectives.tasks()[-3:] == ("nlu", "counting", "synthesis")
    goal = {
        *objectives.quality("counting"),
        objectives.after_an_epoch("counting"),
        objectives.headline("counting"),
    }
    assert goal == {"duplicates_dropped"}
    with refused("expected engine idle with task=counting, got "):
        parse({"task": "counting"})
    made = parse({"task": "counting", "engine": "idle"})
    assert not made.generates
    assert "synthesis" not in made.model_dump()
    assert run_alone(made, tmp_path).metrics == {"num_utterances": 3.0}
    with refused("task to be one of counting, nlu, synthesis"):
        parse({"task": "sum"})
