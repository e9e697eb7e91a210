"""A function that public data lack, learnt from synthetic data (Mireshghallah et al.
2022, 5.4).

    python benchmarks/synthesis/missing_function.py --function WeatherQueryApi [options]

Two trials, of one and of two stages, generate utterances at one epsilon from the
private pairs, the function taken out of the public tenth (`synthesis.remove_function`).
A parser is then trained on the public pairs alone ("none"), on them and each synthetic
set, annotated by the parser of all pairs in place of experts, and on all pairs
("full"), with equally many steps each. Tested on held-out human pairs with the
function, without it, and all. What is there from an earlier start is not made again.
One thread; progress as lines, a Markdown table at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from sweep.synthesis.score_texts import read_texts
from trainables.config.trial import TrialConfig, parse
from trainables.data.pair_split import split_pairs
from trainables.data.pairs import Pair, PairCorpus, open_pairs
from trainables.errors import InvalidInput
from trainables.metrics.parsing import score_by_function
from trainables.parse.function_types import predicate
from trainables.parse.match import Program
from trainables.result import EpochReport
from trainables.system.communication import Alone
from trainables.tasks.parsing import Parser, ParserSettings, gold_programs, train_parser
from trainables.tasks.synthesis import GENERATED
from trainables.trial import run

STEPS = 1_800  # of each evaluated parser
METHODS = ("one_stage", "two_stage")
FIGURES = ("exact_match_anonymous", "api_precision", "api_recall")


def main() -> None:
    """Generate, adapt, print the table."""
    options = _options()
    torch.set_num_threads(1)
    data_dir = Path(os.environ.get("SWEEP_DATA_DIR", "data"))
    started = time.perf_counter()

    def say(words: str) -> None:
        print(f"{time.perf_counter() - started:7.0f} s  {words}", flush=True)

    def listener(method: str) -> Any:
        def heard(epoch: EpochReport) -> bool:
            say(f"{method}: epoch {epoch.epochs_done}")
            return True

        return heard

    made = {}
    for method in METHODS:
        place = options.home / f"{method}-{options.seed}"
        if not (place / GENERATED).exists():
            run(
                _config(options, method=method),
                folder=place,
                comm=Alone(),
                report=listener(method),
                data_dir=data_dir,
                cache_dir=options.home / "cache",
            )
        texts = read_texts(place / GENERATED).utterances
        made[method] = [text for text in texts if text.split()]
    config = _config(options, method=METHODS[0])
    pairs = open_pairs(config.data, data_dir=data_dir)
    split = split_pairs(pairs, config.data, config.synthesis)
    rows = adapt(
        pairs.select(split.public.tolist()),
        pairs.select(split.private.tolist()),
        made,
        pairs.select(split.test.tolist()),
        rule=options.function,
        settings=ParserSettings(literals="anon"),
        steps=STEPS,
        seed=options.seed,
        report=say,
    )
    found = {
        "function": options.function,
        "num_test": len(split.test),
        "steps": STEPS,
        "rows": rows,
        "epsilon": options.epsilon,
        "seconds": time.perf_counter() - started,
    }
    (options.home / "missing_function.json").write_text(json.dumps(found, indent=1))
    print(_table(found))


def adapt(
    public: PairCorpus,
    private: PairCorpus,
    synthetic: Mapping[str, Sequence[str]],
    test: PairCorpus,
    *,
    rule: str,
    settings: ParserSettings,
    steps: int,
    seed: int,
    report: Callable[[str], None] = lambda _: None,
) -> dict[str, dict[str, Any]]:
    """A row for "none", each synthetic set of utterances, and "full": the parser's
    training data, and its scores "with", "all" and "without".

    Each parser takes about `steps` steps, so that more pairs are not more training. The
    parser of "full" was trained on the private programs, so no result may be released.

    Raises: InvalidInput where the public pairs use the function, the test pairs do not,
    or a synthetic set is empty.
    """
    uses = predicate(rule)
    if any(map(uses, public.programs)):
        raise InvalidInput(f"expected public pairs without {rule!r}, some use it")

    def learn(name: str, pairs: PairCorpus) -> tuple[Parser, dict[str, Any]]:
        report(f"{name}: {len(pairs)} pairs")
        epochs = max(1, round(steps / -(-len(pairs) // settings.batch_size)))
        parser = train_parser(
            pairs, settings=replace(settings, epochs=epochs), seed=seed
        )
        predicted = [Program.of(program) for program in parser.parse(test.utterances)]
        found = score_by_function(gold_programs(parser, test), predicted, rule=rule)
        return parser, {
            "num_pairs": len(pairs),
            "num_with_function": sum(map(uses, pairs.programs)),
            "scores": {part: asdict(scores) for part, scores in found.items()},
        }

    def and_public(name: str, pairs: tuple[Pair, ...]) -> PairCorpus:
        return PairCorpus(f"{public.name}+{name}", public.pairs + pairs, public=False)

    for name, utterances in synthetic.items():
        if not utterances:
            raise InvalidInput(
                f"expected non-empty synthetic sets, got {name!r} of none"
            )
    expert, full = learn("full", and_public(private.name, private.pairs))
    rows = {"none": learn("none", public)[1]}
    for name, utterances in synthetic.items():
        annotated = tuple(
            map(Pair, utterances, expert.parse(utterances), [name] * len(utterances))
        )
        rows[name] = learn(name, and_public(name, annotated))[1]
    return {**rows, "full": full}


def _config(options: argparse.Namespace, *, method: str) -> TrialConfig:
    synthesis: dict[str, Any] = {
        "method": method,
        "remove_function": options.function,
        "num_generated": options.generated,
        "measuring_parser_epochs": 0,
        "num_beams": 1,
    }
    if method == "two_stage":
        synthesis |= {"parse_epochs": 2, "parser_epochs": 64}
    return parse(
        {
            "task": "synthesis",
            "engine": "dp_sgd",
            "data": {"name": "smcalflow", "max_records": options.max_records},
            "model": {
                "name": "causal_lm",
                "hidden_size": 192,
                "num_layers": 4,
                "num_heads": 6,
                "intermediate_size": 768,
                "dropout": 0.0,
            },
            "privacy": {
                "noise_multiplier": {"target_epsilon": options.epsilon},
                "max_grad_norm": 0.1,
                "delta": 8e-6,
            },
            "training": {
                "epochs": 7,
                "expected_batch_size": 256,
                "physical_batch_size": 128,
                "learning_rate": 5e-4,
                "seed": options.seed,
            },
            "synthesis": synthesis,
        }
    )


def _table(found: dict[str, Any]) -> str:
    """Markdown: EM / API precision / API recall, in percent, of each part."""
    function = found["function"]
    lines = [
        f"| learnt from | pairs, with {function} | tested on {function} | on all | on"
        f" the rest |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, row in found["rows"].items():
        cells = [
            " / ".join(f"{100 * row['scores'][part][figure]:.1f}" for figure in FIGURES)
            if part in row["scores"]
            else "-"
            for part in ("with", "all", "without")
        ]
        pairs = f"{row['num_pairs']:,}, {row['num_with_function']:,}"
        lines.append(f"| {name} | {pairs} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--function", default="WeatherQueryApi")
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument(
        "--generated", type=int, default=2_000, help="also evaluated on this many"
    )
    parser.add_argument("--max-records", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--home", type=Path, default=Path("missing_function"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
