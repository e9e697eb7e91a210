"""A dry run of a trial before anything is charged: steps, a checkpoint, a saved model,
each loaded.

Only made records are read, so the outcome says nothing of private ones, and all that is
written is thrown away. The mechanism is checked by planning and is not a trial's own
here.
"""

import json
import tempfile
from functools import lru_cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from trainables import saved
from trainables.config.sections import TrainingConfig
from trainables.config.trial import TrialConfig, parse
from trainables.data.records import LabelSchema
from trainables.data.schema import to_json
from trainables.errors import InvalidInput, SweepError, one_line
from trainables.models.configs import text_model
from trainables.models.text.hub_lm import load_lm, save_lm
from trainables.system.communication import Alone
from trainables.tasks import _synthesis_setup as synthesis_setup
from trainables.tasks import nlu
from trainables.tasks._setup import prepare
from trainables.training import train

_TRAINING = {"optimizer", "learning_rate_decay", "precision"}
_WORDS = (
    "show",
    "me",
    "Flights",
    "to",
    "boston",
    "o'clock",
    "4:30pm",
    "\u00e9",
    "$",
    "a",
    "18th",
)
_PARTS = ("train", "train", "validation", "test")
_RECORDS = 24
# Of the section synthesis, where it has them: each depends on real records, or takes
# time.
_MADE: dict[str, Any] = {
    "parses": "gold",
    "histogram": "public",
    "remove_function": None,
    "only_function": None,
    "public_fraction": 0.5,
    "pretrain_epochs": 0,
    "parse_epochs": 1,
    "num_generated": 2,
}


def dry_run(config: TrialConfig, schema: LabelSchema | None) -> None:
    """Try the config's model with its engine; those that are equal are tried once.
    `schema` has the labels of utterances, None for pairs. Raises: InvalidInput where a
    part of it fails.
    """
    fields: dict[str, Any] = {
        "task": config.task,
        "engine": config.engine,
        "model": config.model.model_dump(mode="json"),
        "training": config.training.model_dump(mode="json", include=_TRAINING)
        # A sample of rate 1: every made record is in every step.
        | {"epochs": 2, "expected_batch_size": _RECORDS // (2 - config.generates)},
    }
    if config.generates:
        section = config.synthesis.model_dump(mode="json")
        kept = {n: value for n, value in _MADE.items() if section.get(n) is not None}
        section.pop("histogram_noise_multiplier", None)
        fields["synthesis"] = section | kept
    _try(json.dumps(fields, sort_keys=True), schema)


@lru_cache(maxsize=1_024)
def _try(text: str, schema: LabelSchema | None) -> None:
    fields = json.loads(text)
    try:
        with tempfile.TemporaryDirectory() as folder:
            if fields["task"] == "synthesis":
                _texts(fields, Path(folder))
            elif fields["task"] == "nlu" and schema is not None:
                _frames(fields, schema, Path(folder))
    except SweepError as problem:
        raise InvalidInput(str(problem)) from None
    except Exception as error:
        raise InvalidInput(
            f"expected model.name={fields['model']['name']} to take a step with"
            f" engine={fields['engine']} on made records, to be saved and to be loaded,"
            f" got {one_line(f'{type(error).__name__}: {error}', characters=300)}"
        ) from error


def _frames(fields: dict[str, Any], schema: LabelSchema, folder: Path) -> None:
    """A trial of the task nlu on made utterances with the labels of `schema`."""
    (folder / "schema.json").write_text(to_json(schema), encoding="utf-8")
    words, intents, slots = cycle(_WORDS), cycle(schema.intents), cycle(schema.slots)
    with (folder / "made.jsonl").open("w", encoding="utf-8") as file:
        for number in range(_RECORDS):
            tokens = list(islice(words, 1 + number % 9))
            tags = ["O"] * len(tokens)
            if schema.slots:
                tags[-1] = f"B-{next(slots)}"
            record = {
                "tokens": tokens,
                "tags": tags,
                "part": _PARTS[number % len(_PARTS)],
            }
            if schema.has_intents:
                record["intent"] = next(intents)
            file.write(json.dumps(record) + "\n")
    data = {
        "name": "json_lines",
        "path": str(folder / "made.jsonl"),
        "schema_file": str(folder / "schema.json"),
        "split": "official",
        "num_records": _RECORDS // 2,
    }
    evaluation = {"attacks": [], "bootstrap_samples": 0}
    config = parse({**fields, "data": data, "evaluation": evaluation})
    cache = folder / "cache"
    setup = prepare(config, comm=Alone(), data_dir=folder, cache_dir=cache)
    if config.trains:
        for _ in ("train and save", "load"):
            train(
                setup,
                TrainingConfig(epochs=1),
                folder=folder,
                comm=Alone(),
                report=lambda _: True,
            )
    nlu.save_model(setup, folder / "model")
    found = saved.load(folder, factory=config.model.own_code)
    found.read([saved.unlabelled(_WORDS)])


def _texts(fields: dict[str, Any], folder: Path) -> None:
    """A trial of the task synthesis on made pairs, its models without pretraining."""
    with (folder / "made.jsonl").open("w", encoding="utf-8") as file:
        for number in range(3 * _RECORDS):  # private, public, and to compare with
            words = list(islice(cycle(_WORDS), number % 9, 10 + number % 9))
            record = {
                "utterance": " ".join(words),
                "lispress": f'(Yield :output (Find :name "{words[0]}"))',
                "domain": "made",
                "part": "train" if number < 2 * _RECORDS else "test",
            }
            file.write(json.dumps(record) + "\n")
    path = str(folder / "made.jsonl")
    data = {"name": "pair_lines", "path": path, "num_records": _RECORDS}
    config = parse({**fields, "data": data})
    setup = synthesis_setup.prepare(
        config, comm=Alone(), folder=folder, data_dir=folder, cache_dir=folder / "cache"
    )
    for _ in ("train and save", "load"):
        train(
            setup,
            TrainingConfig(epochs=2),
            folder=folder,
            comm=Alone(),
            report=lambda _: True,
        )
    save_lm(dict(setup.model.items()), setup.source.tokenizer, folder / "model")
    load_lm(
        folder / "model",
        setup.method.stages,
        text_model(config.model),
        config.synthesis,
    )
