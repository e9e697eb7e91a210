"""A function that public data lack, learnt from synthetic data (Mireshghallah et al. 2022, 5.4).

    python benchmarks/synthesis_missing_function.py --function 'WeatherQueryApi' [options]

The public part is a tenth of the training pairs without those that use the function. Private
utterances are used by the synthesis alone, at one epsilon. Parsers are trained on: the public part
("none"); it and synthetic utterances of one or two stages, annotated by the parser of all pairs,
which stands in for experts; all pairs ("full"). Each is measured on held-out pairs with the
function, all of them, and those without. One thread; progress as JSON lines, a table at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from trainables.communication import Alone
from trainables.config import TrialConfig, parse
from trainables.data.pair_split import split_pairs
from trainables.data.pairs import Pair, PairCorpus, corpus_of, open_pairs
from trainables.metrics import parsing as scores
from trainables.metrics.parse_match import Program
from trainables.tasks.parsing import Parser, ParserSettings, gold_programs, train_parser
from trainables.tasks.synthesis import GENERATED
from trainables.trial import run

FIGURES = ("exact_match_anonymous", "api_precision", "api_recall")


def main() -> None:
    """Run every row of the table."""
    options = _options()
    torch.set_num_threads(1)
    data_dir = Path(os.environ.get("SWEEP_DATA_DIR", "data"))
    config = _config(options, method="one_stage")
    corpus = open_pairs(config.data, data_dir=data_dir)
    split = split_pairs(corpus, config.data, config.synthesis)
    public, test = (corpus.select(ids.tolist()) for ids in (split.public, split.test))
    everything = corpus.select([*split.public.tolist(), *split.private.tolist()])
    settings = ParserSettings(literals="anon", epochs=options.parser_epochs)
    rows: dict[str, Any] = {}

    def measure(name: str, parser: Parser) -> None:
        gold = gold_programs(parser, test)
        predicted = [Program.of(program) for program in parser.parse(test.utterances)]
        found = scores.score_by_function(gold, predicted, rule=options.function)
        rows[name] = {
            part: {figure: asdict(of_part)[figure] for figure in FIGURES}
            | {"num_records": of_part.num_records}
            for part, of_part in found.items()
        }
        print(json.dumps({"row": name, "seconds": time.perf_counter() - started, **rows[name]}))

    started = time.perf_counter()
    high = train_parser(everything, settings=settings, seed=options.seed)
    measure("full", high)
    measure("none", train_parser(public, settings=settings, seed=options.seed))
    for method in ("one_stage", "two_stage"):
        place = options.home / f"{method}-{options.seed}"
        result = run(
            _config(options, method=method),
            folder=place,
            comm=Alone(),
            report=lambda epoch: True,
            data_dir=data_dir,
            cache_dir=options.home / "cache",
        )
        lines = (place / GENERATED).read_text(encoding="utf-8").splitlines()
        made = [text for line in lines if (text := json.loads(line)["utterance"])]
        annotated = _annotated(made, high)
        adapted = corpus_of([*_pairs(public), *annotated], name="public and synthetic", public=True)
        measure(method, train_parser(adapted, settings=settings, seed=options.seed))
        rows[method]["epsilon"] = result.metrics["epsilon"]
    print(_table(rows, options.function))
    (options.home / "missing_function.json").write_text(json.dumps(rows, indent=1))


def _annotated(utterances: list[str], parser: Parser) -> list[Pair]:
    programs = parser.parse(utterances)
    return [
        Pair(text, program, "synthetic") for text, program in zip(utterances, programs, strict=True)
    ]


def _pairs(corpus: PairCorpus) -> list[Pair]:
    columns = zip(corpus.utterances, corpus.programs, corpus.dialogues, strict=True)
    return [Pair(*row) for row in columns]


def _config(options: argparse.Namespace, *, method: str) -> TrialConfig:
    synthesis: dict[str, Any] = {
        "method": method,
        "remove_function": options.function,
        "num_generated": options.generated,
        "measuring_parser_epochs": 0,
        "parser_epochs": options.parser_epochs,
        "pretrain_epochs": options.pretrain_epochs,
        "max_tokens": 96,
    }
    if method == "two_stage":
        synthesis["parse_epochs"] = max(1, options.epochs // 5)
    return parse(
        {
            "task": "synthesis",
            "engine": "dp_sgd",
            "data": {"name": "smcalflow", "max_records": options.max_records},
            "model": {
                "name": "causal_lm",
                "hidden_size": options.width,
                "num_layers": options.layers,
                "num_heads": 4,
                "intermediate_size": 4 * options.width,
                "dropout": 0.0,
            },
            "privacy": {
                "noise_multiplier": {"target_epsilon": options.epsilon},
                "max_grad_norm": 0.1,
                "delta": 8e-6,
            },
            "training": {
                "epochs": options.epochs,
                "expected_batch_size": options.batch,
                "physical_batch_size": 128,
                "learning_rate": 2e-3,
                "seed": options.seed,
            },
            "synthesis": synthesis,
        }
    )


def _table(rows: dict[str, Any], function: str) -> str:
    """Markdown: EM / API precision / API recall, in percent, of each part."""
    parts = ("with", "all", "without")
    lines = [
        f"| trained on | {function} | all | all but {function} |",
        "| --- | --- | --- | --- |",
    ]
    for name, row in rows.items():
        cells = [
            " / ".join(f"{100 * row[part][figure]:.1f}" for figure in FIGURES)
            if part in row
            else "-"
            for part in parts
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--function", default="WeatherQueryApi")
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--generated", type=int, default=4_000)
    parser.add_argument("--max-records", type=int, default=None)
    parser.add_argument("--parser-epochs", type=int, default=16)
    parser.add_argument("--pretrain-epochs", type=int, default=3)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--home", type=Path, default=Path("missing_function"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
