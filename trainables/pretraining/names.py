"""Learns on the public corpora the maps from names of labels to scores of tokens and utterances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.encoders.rows import NameScores, Recipe, tag_names, with_bias
from trainables.pretraining.corpora import PublicCorpus
from trainables.seeding import generator

_RECORDS = 3_000  # of each corpus
_EPOCHS = 3
_LEARNING_RATE = 0.02
_TOKENS_AT_ONCE, _RECORDS_AT_ONCE = 1_024, 256
_SIZE = 128  # entries of a name's vector


@dataclass(frozen=True, eq=False)
class _Sample:
    """Rows and labels of one corpus, and the vectors of its names."""

    tokens: Tensor
    tags: Tensor
    tag_names: Tensor
    records: Tensor
    intents: Tensor
    intent_names: Tensor


def learn_names(recipe: Recipe, corpora: Sequence[PublicCorpus], *, seed: int) -> NameScores:
    """Softmax regression through the names, on `_RECORDS` records of each corpus, by Adam."""
    projection = _projection(recipe, corpora)
    samples = [_sample(recipe, each, projection, seed=seed) for each in corpora]
    width, of_record = samples[0].tokens.shape[1] + 1, samples[0].records.shape[1] + 1
    tokens = torch.zeros(3 + projection.shape[1], width, requires_grad=True)
    records = torch.zeros(projection.shape[1], of_record, requires_grad=True)
    optimizer = torch.optim.Adam([tokens, records], lr=_LEARNING_RATE)
    steps = _schedule(samples, seed=seed)
    for number, (corpus, of_tokens, chosen) in enumerate(steps):
        each = samples[corpus]
        if of_tokens:
            scores = with_bias(each.tokens[chosen].float()) @ tokens.t() @ each.tag_names.t()
            gold = each.tags[chosen]
        else:
            scores = with_bias(each.records[chosen].float()) @ records.t() @ each.intent_names.t()
            gold = each.intents[chosen]
        for group in optimizer.param_groups:
            group["lr"] = _LEARNING_RATE * (1 - number / len(steps))
        optimizer.zero_grad()
        F.cross_entropy(scores, gold).backward()  # type: ignore[no-untyped-call]  # torch's
        optimizer.step()
    return NameScores(projection, tokens.detach(), records.detach())


def _projection(recipe: Recipe, corpora: Sequence[PublicCorpus]) -> Tensor:
    """[E, N]: the directions in which the names of all corpora differ most."""
    names = sorted({n for each in corpora for n in each.corpus.schema.intents})
    slots = sorted({n for each in corpora for n in each.corpus.schema.slots})
    rows = recipe.of_names([*names, *slots])
    *_, directions = torch.linalg.svd(rows - rows.mean(0), full_matrices=False)
    found: Tensor = directions[:_SIZE].t().contiguous()
    return found


def _sample(recipe: Recipe, each: PublicCorpus, projection: Tensor, *, seed: int) -> _Sample:
    schema = each.corpus.schema
    drawn = generator(seed, "names", each.corpus.name).permutation(each.train)[:_RECORDS]
    found = []
    for _, batch in each.loader.evaluation_batches(np.sort(drawn), max_tokens=2_048):
        of_tokens, of_records = recipe.of_batch(batch)
        found.append((of_tokens.half(), batch.tags, of_records.half(), batch.intents))
    tokens, tags, records, intents = (torch.cat(part) for part in zip(*found, strict=True))

    def vectors(names: Sequence[str]) -> Tensor:
        return F.normalize(recipe.of_names(names) @ projection, dim=1)

    return _Sample(
        tokens=tokens,
        tags=tags,
        tag_names=tag_names(schema, vectors(schema.slots)),
        records=records,
        intents=intents,
        intent_names=vectors(schema.intents),
    )


def _schedule(samples: Sequence[_Sample], *, seed: int) -> list[tuple[int, bool, Tensor]]:
    """(corpus, tokens or records, which) of every step, mixed."""
    draw = generator(seed, "names")
    steps = []
    for _ in range(_EPOCHS):
        for corpus, each in enumerate(samples):
            sizes = ((True, each.tags, _TOKENS_AT_ONCE), (False, each.intents, _RECORDS_AT_ONCE))
            for of_tokens, labels, at_once in sizes:
                order = torch.from_numpy(draw.permutation(len(labels)))
                parts = torch.split(order, at_once)
                steps += [(corpus, of_tokens, chosen) for chosen in parts]
    return [steps[k] for k in draw.permutation(len(steps))]
