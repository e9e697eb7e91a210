"""What a trial of heads costs on features that are computed already, beside
scikit-learn.

    python benchmarks/heads.py [--data atis] [--encoder dialogues] [--repeats 3]
    [--precision fp32]

Printed: seconds of processor of the steps of a private trial (median), and SER on the
test part of the same heads without privacy and of scikit-learn's logistic regression on
the same rows, tags decoded one by one in both.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from search_spaces.expansion import expand
from search_spaces.space import read
from trainables.data.bio import slots_lenient
from trainables.data.records import Frame
from trainables.metrics import count_frames, summarize
from trainables.system.communication import Alone
from trainables.tasks._setup import TrialSetup, prepare


def prepared(arguments: argparse.Namespace, engine: str, cache: Path) -> TrialSetup:
    """The trial of `search_spaces/epsilon_8.yaml` with this engine, before its first
    step.
    """
    overrides = {
        "data.name": arguments.data,
        "model.encoder": arguments.encoder,
        "training.precision": arguments.precision,
        "evaluation.attacks": [],
    }
    points = expand(read("epsilon_8", overrides=overrides)).points
    config = next(p.config for p in points if p.config and p.config.engine == engine)
    data = Path(os.environ.get("SWEEP_DATA_DIR", "data"))
    return prepare(config, comm=Alone(), data_dir=data, cache_dir=cache)


def trained(setup: TrialSetup) -> float:
    """Take all steps; seconds of processor."""
    before = time.process_time()
    for epoch in range(setup.config.training.epochs):
        setup.engine.run_epoch(epoch)
    return time.process_time() - before


def ser(setup: TrialSetup, intents: np.ndarray, tags: np.ndarray) -> float:
    """SER of these labels of the test part; `tags` one after another."""
    schema, ids = setup.corpus.schema, setup.split.test
    lengths = setup.corpus.offsets[ids + 1] - setup.corpus.offsets[ids]
    names = [
        tuple(schema.tags[k] for k in p)
        for p in np.split(tags, np.cumsum(lengths)[:-1])
    ]
    frames = [
        Frame(schema.intents[k], slots_lenient(each))
        for k, each in zip(intents, names, strict=True)
    ]
    counts = count_frames(
        setup.corpus.frames(ids),
        frames,
        align="name",
        match="span",
        hypothesis_tags=names,
        reference_tags=setup.corpus.tag_sequences(ids),
    )
    return summarize(counts, bootstrap_samples=0, seed=0)["ser"]


def with_sklearn(setup: TrialSetup) -> float:
    """SER of two logistic regressions on the rows that the heads read."""
    train, test = (
        setup.loader.batch(ids) for ids in (setup.split.train, setup.split.test)
    )
    found = []
    for rows, labels in (("records", "intents"), ("tokens", "tags")):
        x, y = train.inputs[rows].numpy(), getattr(train, labels).numpy()
        fitted = LogisticRegression(C=300.0, max_iter=150).fit(x[y >= 0], y[y >= 0])
        found.append(fitted.predict(test.inputs[rows].numpy()))
    return ser(setup, *found)


def ours_one_by_one(setup: TrialSetup) -> float:
    """SER of the trained heads where each tag is the best of its token."""
    model, test = setup.model.eval(), setup.loader.batch(setup.split.test)
    with torch.no_grad():
        model.crf.transitions.zero_()
        model.crf.start_transitions.zero_()
        said = model.predict(test)
    return ser(setup, said.intent_log_probs.argmax(1).numpy(), said.tag_paths.numpy())


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="atis")
    parser.add_argument("--encoder", default="dialogues")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--precision", default="bf16", choices=["fp32", "bf16"])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        seconds = [
            trained(prepared(arguments, "dp_sgd", cache))
            for _ in range(arguments.repeats)
        ]
        print(f"steps: {statistics.median(seconds):.1f} s of processor (median)")
        plain = prepared(arguments, "sgd", cache)
        trained(plain)
        theirs, ours = with_sklearn(plain), ours_one_by_one(plain)
        print(f"test SER without privacy: heads {ours:.4f}, scikit-learn {theirs:.4f}")


if __name__ == "__main__":
    main()
