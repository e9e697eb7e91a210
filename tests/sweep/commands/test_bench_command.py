"""`sweep bench`: every engine on the same records, ratios within a round, early refusals."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner

from sweep.bench import measure as measuring
from sweep.bench import stock
from sweep.bench.contestants import Arena, Spec
from sweep.bench.outcome import Times, row
from sweep.bench.rounds import rounds
from sweep.commands import bench
from trainables.errors import InvalidInput

TINY = {
    "data.num_utterances": 1_000,
    "model.hidden_size": 12,
    "model.word_buckets": 50,
}
OF_BERT = {"model.num_heads": 2, "model.intermediate_size": 8}


def call(*arguments: str) -> tuple[str, BaseException | None]:
    app = typer.Typer()
    app.callback()(lambda: None)
    app.command()(bench.bench)
    tiny = TINY | (OF_BERT if "bert" in arguments else {})
    fields = [part for name, value in tiny.items() for part in ("--set", f"{name}={value}")]
    result = CliRunner().invoke(
        app, ["bench", "--data", "communication", "--repeats", "2", *fields, *arguments]
    )
    return result.stdout, result.exception


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path_factory.getbasetemp() / "bench"  # the corpus is made once
    monkeypatch.setenv("SWEEP_HOME", str(folder))
    monkeypatch.setenv("SWEEP_CACHE_DIR", str(folder / "cache"))


def spec(**more: object) -> Spec:
    folder = Path("unused")
    fields = {
        "data": {"name": "communication", "num_utterances": 1_000},
        "model": {"hidden_size": 12, "word_buckets": 50},
        "training": {"expected_batch_size": 4, "num_workers": 1, "epochs": 1000},
    }
    import os

    found = {"fields": fields, "repeats": 3, "data_dir": folder, **more}
    return Spec(cache_dir=Path(os.environ["SWEEP_CACHE_DIR"]), **found)


@pytest.mark.parametrize("model", ["clc", "bert"])
def test_every_engine_of_ours_and_both_baselines(model: str, tmp_path: Path) -> None:
    chosen = [
        part
        for name in ("stock", "sgd", "edp_sgd", "dp_sgd", "naive")
        for part in ("--engine", name)
    ]
    picture = tmp_path / "picture.svg"
    arguments = ["--model", model, "--batch-size", "4", "--no-memory", "--plot", str(picture)]
    printed, problem = call(*arguments, *chosen, "--json")
    assert problem is None
    found = json.loads(printed)
    assert [r["engine"] for r in found["rows"]] == ["stock", "sgd", "edp_sgd", "dp_sgd", "naive"]
    assert found["num_records"] == 450  # 45 % of 1,000
    assert found["steps_per_epoch"] == 113
    for r in found["rows"]:
        assert r["steps"] == 2
        assert r["epoch_seconds"] == pytest.approx(r["step_ms"] * 113 / 1e3)
        assert r["x_sgd"] > 0 < r["x_stock"]
    assert found["rows"][1]["x_sgd"] == 1


def test_a_ratio_is_of_steps_in_the_same_round() -> None:
    """The machine slows down by ten in the middle of the run: the ratio does not notice."""
    sgd = Times(cpu=(1.0, 1.0, 10.0, 10.0), wall=(1.0,) * 4)
    mine = Times(cpu=(2.0, 2.0, 20.0), wall=(1.0,) * 3)  # and sat out at the end
    found = row("dp_sgd", {"sgd": sgd, "dp_sgd": mine}, steps_per_epoch=10, peak_mib=None)
    assert found.x_sgd == 2
    assert found.x_sgd_quartiles == (2, 2)
    assert found.x_stock is None
    assert found.epoch_seconds == 20


def test_a_slow_engine_sits_out_after_two_measured_steps() -> None:
    found = rounds(spec(engines=("sgd",), seconds=0.0), say=lambda _: None)
    assert len(found.times["sgd"].cpu) == 2
    everything = rounds(spec(engines=("sgd",)), say=lambda _: None)
    assert len(everything.times["sgd"].cpu) == 3


def test_workers_share_a_batch_without_overlap() -> None:
    class Second:
        rank, world_size = 1, 2

    whole = Arena(spec()).batches[0]
    fields = {**spec().fields, "training": {"expected_batch_size": 4, "num_workers": 2}}
    two = spec(fields=fields, workers=2)
    halves = [Arena(two).batches[0], Arena(two, Second()).batches[0]]  # type: ignore[arg-type]  # rank alone is read
    assert sorted(np.concatenate(halves)) == sorted(whole)


@pytest.mark.parametrize("model", ["clc", "bert"])
def test_the_stock_model_has_one_loss_a_record_and_no_padding_in_it(model: str) -> None:
    """A record's loss is the same whatever longer record it is padded beside (not its LSTM's:
    a padded bidirectional `nn.LSTM` is wrong at the end of short records, as users' are)."""
    fields = {**spec().fields, "model": {"name": model, "hidden_size": 12, "word_buckets": 50}}
    if model == "bert":
        fields["model"] |= {"num_heads": 2, "intermediate_size": 8}
    arena = Arena(spec(fields=fields))
    config = arena.spec.config("stock")
    from trainables import catalogue
    from trainables.data.batches import Loader

    ours = catalogue.entry("models", model).build(config.model, schema=arena.corpus.schema, seed=0)
    loader = Loader(arena.corpus, ours.feature_table(list(arena.corpus.types)))
    made = stock.build(ours, config.model).eval()
    ids = arena.batches[0]
    together = made(stock.pad_batch(loader.batch(ids)))
    assert together.shape == (4,)
    longest = int(np.argmax([len(t) for t in arena.corpus.token_sequences(ids)]))
    alone = made(stock.pad_batch(loader.batch(ids[longest : longest + 1])))
    torch.testing.assert_close(together[longest : longest + 1], alone, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--engine", "adam"), "--engine to be one of stock, sgd"),
        (("--model", "parser"), "model"),
        (("--batch-size", "3", "--workers", "2"), "multiple of"),
        (("--plot", "x.txt"), "--plot FILE.svg, .png or .pdf, got x.txt"),
        (("--batch-size", "451"), "at most the 450 training records"),
    ],
)
def test_what_cannot_be_is_refused(arguments: tuple[str, ...], words: str) -> None:
    _, problem = call("--no-memory", *arguments)
    assert isinstance(problem, InvalidInput)
    assert words in str(problem)


def test_a_picture_needs_sgd_which_is_known_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "measure", lambda *_, **__: pytest.fail("it was measured"))
    arguments = ("--batch-size", "4", "--engine", "edp_sgd", "--plot", str(tmp_path / "p.svg"))
    _, problem = call("--no-memory", *arguments)
    assert isinstance(problem, InvalidInput)


def test_a_section_that_is_set_keeps_what_options_set_in_it() -> None:
    options = {"data.name": "communication", "model.name": "clc"}
    options |= {"training.expected_batch_size": 8, "training.num_workers": 2}  # type: ignore[dict-item]

    def spec_of(**assigned: object) -> Spec:
        return bench._spec(options, assigned, engines=None, repeats=2, seconds=1.0)

    config = spec_of(training={"learning_rate": 0.5}, model={"name": "bert"}).config("sgd")
    assert (config.training.learning_rate, config.model.name) == (0.5, "bert")
    assert (config.training.expected_batch_size, config.training.num_workers) == (8, 2)
    assert config.training.epochs == 1000
    with pytest.raises(InvalidInput, match=r"training: .* got 5"):
        spec_of(training=5)


@pytest.mark.slow  # starts processes that import torch
def test_two_workers_and_memory_in_processes_of_their_own() -> None:
    printed, problem = call(
        "--batch-size", "4", "--workers", "2", "--json", "--engine", "sgd", "--engine", "dp_sgd",
        "--engine", "stock", "--engine", "naive",
    )  # fmt: skip
    assert problem is None
    found = json.loads(printed)
    assert found["workers"] == 2
    rows = {r["engine"]: r for r in found["rows"]}
    assert rows["naive"]["skipped"] == "measured with --workers 1 only"
    for name in ("stock", "sgd", "dp_sgd"):
        assert rows[name]["x_sgd"] > 0
        assert rows[name]["peak_mib"] > found["idle_mib"] > 50


def test_the_command_line_does_not_import_torch_for_its_help() -> None:
    code = (
        "import sys, sweep.commands.bench; "
        "sys.exit(any(name in sys.modules for name in ('torch', 'matplotlib')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
