"""The largest error of clipped sums and norms, by kind of parameter, on real records.

    python benchmarks/exactness.py --batch-size 16

The book-keeping engine against its definition (one backward pass a record through autograd) for
both models at the paper's sizes, dropout on, random group scales, a clip norm at the median, so
that half of the records are clipped. Errors are relative: |ours - definition| / |definition| of a
parameter's whole gradient; the largest over the parameters of a kind and over batches.
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import torch
from bench import Arena, Spec

from tests.privacy.definition import clipped_sum as definition
from trainables import catalogue
from trainables.data.batches import Loader
from trainables.layers.bookkeeping import clipped_sum


def main() -> None:
    """Print a table for each model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=["clc", "bert"])
    parser.add_argument("--data", default="atis")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--batches", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for model in options.models:
        errors, norms = _errors(model, options)
        print(f"{model}, {options.data}, {options.batches} batches of {options.batch_size}")
        print(f"{'kind of parameter':<34}{'parameters':>12}{'largest relative error':>24}")
        for kind, found in sorted(errors.items()):
            print(f"{kind:<34}{len(found) // options.batches:>12}{max(found):>24.1e}")
        print(f"{'norm of a record':<34}{'':>12}{norms:>24.1e}\n")


def _errors(name: str, options: argparse.Namespace) -> tuple[dict[str, list[float]], float]:
    training = {"expected_batch_size": options.batch_size, "num_workers": 1}
    arena = Arena(
        Spec(
            fields={"data": {"name": options.data}, "model": {"name": name}, "training": training},
        )
    )
    config = arena.spec.config("dp_sgd")
    model = catalogue.entry("models", name).build(config.model, schema=arena.corpus.schema, seed=0)
    model.train()
    loader = Loader(arena.corpus, model.feature_table(list(arena.corpus.types)))
    owners = dict(model.named_modules())
    trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    errors: dict[str, list[float]] = defaultdict(list)
    worst = 0.0
    for number in range(options.batches):
        model.begin_step("exactness", number)
        batch = loader.batch(arena.batches[number])
        torch.manual_seed(number)
        how = {
            "unit_of_record": torch.arange(options.batch_size),
            "num_units": options.batch_size,
            "weight_of_record": torch.ones(options.batch_size),
            "group_scale": torch.rand(len(trained)) + 0.5,
        }
        truth, ours = (torch.zeros(sum(p.numel() for _, p in trained)) for _ in range(2))
        norms = definition(model, batch, out=truth, max_grad_norm=1e9, **how)
        clip = float(norms.median())
        truth.zero_()
        definition(model, batch, out=truth, max_grad_norm=clip, **how)
        found = clipped_sum(model, batch, out=ours, max_grad_norm=clip, **how)
        worst = max(worst, float(((found - norms).abs() / norms).max()))
        sizes = [p.numel() for _, p in trained]
        for (full, _), mine, its in zip(
            trained, torch.split(ours, sizes), torch.split(truth, sizes), strict=True
        ):
            layer, _, own = full.rpartition(".")
            kind = f"{type(owners[layer]).__name__} {own}"
            errors[kind].append(float((mine - its).norm() / its.norm().clamp(min=1e-30)))
    return errors, worst


if __name__ == "__main__":
    main()
