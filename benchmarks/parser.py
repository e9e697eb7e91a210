"""What the small parser reaches on SMCalFlow: 11,000 turns to learn from, 1,000 to be judged by.

    python benchmarks/parser.py [anon|copy] [epochs] [turns to learn from]

The turns are those of the official validation file, drawn at random (seed 0), without the dialogue
before them. One thread.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

import torch

from trainables.config import data_config
from trainables.data.pairs import open_pairs
from trainables.models._parser_vocabulary import Literals
from trainables.seeding import generator
from trainables.tasks.parsing import ParserSettings, evaluate, train_parser

NUM_TRAIN, NUM_TEST = 11_000, 1_000


def main(literals: Literals, epochs: int = 16, num_train: int = NUM_TRAIN) -> None:
    """Train once, print one JSON object."""
    torch.set_num_threads(1)
    data_dir = Path(os.environ.get("SWEEP_DATA_DIR", "data"))
    pairs = open_pairs(data_config(name="smcalflow"), data_dir=data_dir).of_part("validation")
    order = generator(0, "benchmark", "parser").permutation(len(pairs)).tolist()
    train = pairs.select(order[:num_train])
    test = pairs.select(order[NUM_TRAIN : NUM_TRAIN + NUM_TEST])
    start = time.perf_counter()
    cpu = time.process_time()
    parser = train_parser(
        train,
        settings=ParserSettings(literals=literals, epochs=epochs),
        seed=0,
        report=lambda epoch, loss: print(
            f"epoch {epoch + 1} of {epochs}: loss {loss:.3f}, {time.perf_counter() - start:.0f} s",
            file=sys.stderr,
            flush=True,
        ),
    )
    trained, busy = time.perf_counter() - start, time.process_time() - cpu
    start = time.perf_counter()
    found = evaluate(parser, test)
    print(
        json.dumps(
            {
                "literals": literals,
                "epochs": epochs,
                "num_train": num_train,
                "seconds_training": round(trained, 1),
                "seconds_training_cpu": round(busy, 1),
                "seconds_parsing": round(time.perf_counter() - start, 1),
                "num_parameters": sum(p.numel() for p in parser.model.parameters()),
                "num_words": len(parser.vocabulary.words),
                "num_tokens": len(parser.vocabulary.tokens),
                **asdict(found),
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    given = sys.argv[1:]
    main("copy" if "copy" in given else "anon", *(int(a) for a in given if a.isdigit()))
