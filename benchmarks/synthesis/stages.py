"""Which stage of two loses to noise, and why (Mireshghallah et al. 2022, section 3.2).

    python benchmarks/synthesis/stages.py --rows noised,noised noised,plain human,noised [options]

A row is STAGE1,STAGE2: where the programs come from and how the model of utterances behind them is
trained. A stage is `noised[@C]` (DP-SGD with the noise that covers both stages), `clipped[@C]` (the
same without noise), `plain` (SGD); `human` takes programs of private records for the first stage,
which no epsilon covers, and `none` trains one stage of utterances alone. A stage that is in several
rows, or was trained by an earlier start, is trained once. With `--norms N` the norms of N public
records' gradients at the starting weights come first, which a clip norm may be chosen by. One
thread; progress as lines, Markdown tables at the end.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from small_model import model_fields, training_fields

from sweep.synthesis.trained_text import open_trained
from trainables import catalogue
from trainables.config import TrialConfig, parse
from trainables.data.pair_split import split_pairs
from trainables.data.pairs import PairCorpus, open_pairs
from trainables.data.texts import EncodedTexts, TextBatch
from trainables.generation._drawer import ModelDrawer
from trainables.generation._material import PARSES, UTTERANCES, Material
from trainables.metrics import function_distance, generation
from trainables.models._hub_lm import load_lm
from trainables.models.causal_lm import config_of
from trainables.parse.function_types import occurrences
from trainables.parse.graph import graph, is_well_formed
from trainables.parse.lispress import LispressError
from trainables.result import EpochReport
from trainables.system.communication import Alone
from trainables.tasks._fluency import mean_token_loss
from trainables.tasks._synthesis_data import materials
from trainables.tasks._synthesis_setup import prepare
from trainables.trial import run

LENGTHS = (1, 4, 10, 20, 40, 129)  # bounds of the classes of records
ALONE, HUMAN = "none", "human"  # in place of a first stage
DATA = Path(os.environ.get("SWEEP_DATA_DIR", "data"))
COLUMNS = (
    *("stage 1", "stage 2", "loss of programs", "of utterances", "behind shuffled programs"),
    *(
        "drawn programs that read",
        "most frequent program, drawn / private",
        "chi2 of programs",
        "MAUVE",
        "P / R",
        "words",
    ),
)


def main() -> None:
    """Train what is missing, draw, print the table."""
    options = _options()
    torch.set_num_threads(1)
    if options.norms:
        for stage in (PARSES, UTTERANCES):
            _print_norms(options, stage)
    rows = []
    for asked in options.rows:
        first, second = asked.split(",")
        rows.append(_row(options, first, second))
        print("| " + " | ".join(rows[-1]) + " |", flush=True)
    print("\n| " + " | ".join(COLUMNS) + " |\n|" + " --- |" * len(COLUMNS))
    print("\n".join("| " + " | ".join(row) + " |" for row in rows))


def _print_norms(options: argparse.Namespace, stage: str) -> None:
    """The 10th, 50th and 90th percentile of the norms of public records, by their length."""
    with tempfile.TemporaryDirectory() as folder:
        setup = prepare(
            _config(options, stage, "plain"),
            comm=Alone(),
            folder=Path(folder),
            data_dir=DATA,
            cache_dir=options.home / "cache",
        )
    public, model = setup.public_text[stage], setup.model[stage].eval()
    texts = EncodedTexts(
        public.texts[: options.norms],
        setup.source.tokenizer,
        max_tokens=setup.config.synthesis.max_tokens,
        prompts=public.prompts and public.prompts[: options.norms],
    )
    lengths = np.diff(texts.offsets) - texts.first
    norms = np.array([_norm(model, texts.batch(np.array([i]))) for i in range(len(texts))])
    print(f"\n| {stage}: counted tokens | records | norm, 10 % | 50 % | 90 % |")
    print("| --- | --- | --- | --- | --- |")
    for low, high in itertools.pairwise(LENGTHS):
        within = norms[(low <= lengths) & (lengths < high)]
        if len(within):
            shares = " | ".join(f"{value:.0f}" for value in np.percentile(within, [10, 50, 90]))
            print(f"| {low} to {high - 1} | {len(within)} | {shares} |")


def _norm(model: Any, batch: TextBatch) -> float:
    found = torch.autograd.grad(model.losses(batch).sum(), list(model.parameters()))
    return math.sqrt(sum(float(part.square().sum()) for part in found))


def _row(options: argparse.Namespace, first: str, second: str) -> list[str]:
    corpus, parts = _records(_config(options, PARSES, "plain"), options.home / "cache")
    private = parts["private"].programs
    texts, losses, shape = None, ["-", "-", "-"], ["-", "-", "-"]
    if first == HUMAN:
        texts = _shuffled(private, options.seed)[: options.generated]
    elif first != ALONE:
        trial, found = _trained(options, PARSES, first)
        texts = _draw(options, trial, PARSES, None)
        losses[0] = f"{found['validation_loss']:.2f}"
    if texts is not None:
        shape = _shape(texts, private)
    stage = "one" if first == ALONE else UTTERANCES
    trial, found = _trained(options, stage, second)
    losses[1] = f"{found['validation_loss']:.2f}"
    if texts is not None:
        losses[2] = f"{_loss_of_shuffled(options, trial, parts['validation']):.2f}"
    drawn = _draw(options, trial, UTTERANCES, texts)
    human = corpus.select(_split(corpus, options).test.tolist())
    scores: Any = generation.score(generation.Texts(drawn), generation.Texts(human.utterances))
    words = sum(len(text.split()) for text in drawn) / len(drawn)
    near = f"{scores['neighbour_precision']:.2f} / {scores['neighbour_recall']:.2f}"
    return [first, second, *losses, *shape, f"{scores['mauve']:.3f}", near, f"{words:.1f}"]


def _loss_of_shuffled(options: argparse.Namespace, folder: Path, held_out: Material) -> float:
    """The loss behind programs of other records: near the loss, the model makes no use of them."""
    model, tokenizer, synthesis = _model(options, folder, UTTERANCES)
    programs = _shuffled(held_out.programs, options.seed)
    texts = EncodedTexts(
        held_out.utterances, tokenizer, max_tokens=synthesis.max_tokens, prompts=programs
    )
    return mean_token_loss(model, texts)


def _shuffled(programs: Sequence[str], seed: int) -> list[str]:
    return [programs[i] for i in np.random.default_rng(seed).permutation(len(programs))]


def _shape(programs: Sequence[str], private: Sequence[str]) -> list[str]:
    """The share that reads; that of the most frequent private program; chi2 of function types."""
    frequent, number = Counter(private).most_common(1)[0]
    reads = sum(map(is_well_formed, programs)) / len(programs)
    shares = f"{programs.count(frequent) / len(programs):.2f} / {number / len(private):.2f}"
    distance = function_distance.value(_functions(programs), _functions(private))
    return [f"{reads:.2f}", shares, f"{distance:.3f}"]


def _functions(programs: Sequence[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for program in programs:
        try:
            found.update(occurrences(graph(program), fn_types="heads+types"))
        except LispressError:
            continue
    return found


def _trained(options: argparse.Namespace, stage: str, how: str) -> tuple[Path, dict[str, Any]]:
    """The folder of a stage trained alone, and its figures; trained now where it is not there."""
    config = _config(options, stage, how)
    folder = options.home / f"{stage}-{how}-{config.id}"
    figures = folder / "figures.json"
    if not figures.is_file():
        started = time.perf_counter()

        def report(epoch: EpochReport) -> bool:
            loss, spent = epoch.metrics["validation_loss"], time.perf_counter() - started
            print(f"{spent:7.0f} s  {stage} {how}: epoch {epoch.epochs_done}, loss {loss:.3f}")
            return True

        result = run(
            config,
            folder=folder,
            comm=Alone(),
            report=report,
            data_dir=DATA,
            cache_dir=options.home / "cache",
        )
        figures.write_text(json.dumps(result.metrics))
    return folder, json.loads(figures.read_text())


def _draw(
    options: argparse.Namespace, folder: Path, stage: str, prompts: Sequence[str] | None
) -> list[str]:
    model, tokenizer, synthesis = _model(options, folder, stage)
    drawer = ModelDrawer({stage: model}, tokenizer, synthesis, seed=options.seed)
    return drawer(stage, number=options.generated, prompts=prompts, num_beams=1)


def _model(options: argparse.Namespace, folder: Path, stage: str) -> tuple[Any, Any, Any]:
    """A trained model, its tokenizer, and its fields of synthesis."""
    trained = open_trained(folder)
    config = config_of(_config(options, PARSES, "plain").model)
    models, tokenizer = load_lm(trained.folder, (stage,), config, trained.synthesis)
    return models[stage], tokenizer, trained.synthesis


def _split(corpus: PairCorpus, options: argparse.Namespace) -> Any:
    config = _config(options, PARSES, "plain")
    return split_pairs(corpus, config.data, config.synthesis)


@cache
def _records(config: TrialConfig, cache_dir: Path) -> tuple[PairCorpus, dict[str, Material]]:
    """The corpus, and its parts as a trial reads them."""
    corpus = open_pairs(config.data, data_dir=DATA)
    split = split_pairs(corpus, config.data, config.synthesis)
    method = catalogue.entry("generation", config.synthesis.method)
    return corpus, materials(config, corpus, split, method, cache_dir=cache_dir)


def _config(options: argparse.Namespace, stage: str, how: str) -> TrialConfig:
    """One stage as a trial of its own, with the noise of both."""
    kind, _, bound = how.partition("@")
    synthesis: dict[str, Any] = {
        "num_generated": options.generated,
        "measuring_parser_epochs": 0,
        "num_beams": 1,
        "pretrain_epochs": options.pretrain_epochs,
    }
    lengths = {PARSES: options.parse_epochs, UTTERANCES: options.epochs - options.parse_epochs}
    if stage in lengths:
        other = options.epochs - lengths[stage]
        two = {"method": "two_stage", "only": stage, "other_epochs": other}
        synthesis |= {**two, "parses": options.parses}
    fields: dict[str, Any] = {
        "task": "synthesis",
        "engine": "sgd" if kind == "plain" else "dp_sgd",
        "data": {"name": "smcalflow"},
        "model": model_fields(options),
        "training": training_fields(options, epochs=lengths.get(stage, options.epochs)),
        "synthesis": synthesis,
    }
    if kind != "plain":
        noise = 0.0 if kind == "clipped" else {"target_epsilon": options.epsilon}
        fields["privacy"] = {
            "noise_multiplier": noise,
            "max_grad_norm": float(bound or options.bound),
            "delta": 8e-6,
        }
    return parse(fields)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", nargs="+", default=["none,noised", "noised,noised"])
    parser.add_argument("--norms", type=int, default=0, help="of so many public records")
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--bound", type=float, default=0.1, help="C where a stage names none")
    parser.add_argument("--epochs", type=int, default=7, help="T1 + T2, and T of one stage")
    parser.add_argument("--parse-epochs", type=int, default=2, help="T1")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--parses", choices=("parser", "gold"), default="parser")
    parser.add_argument("--pretrain-epochs", type=int, default=3)
    parser.add_argument("--generated", type=int, default=1_000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--home", type=Path, default=Path("stages"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
