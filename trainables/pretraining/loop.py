"""The loop of a pretraining: steps over all corpora, checkpoints, progress reports."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from trainables.data.batches import PackedBatch
from trainables.data.records import LabelSchema
from trainables.layers.precision import passes_in
from trainables.models import bert
from trainables.models._bert import Bert
from trainables.pretraining.config import PretrainingConfig
from trainables.pretraining.corpora import PublicCorpus, open_corpora
from trainables.seeding import generator, stream_seed
from trainables.system import checkpoint

_SECONDS_BETWEEN_CHECKPOINTS = 60.0
_MAX_NORM = 1.0


SMALL = LabelSchema(intents=("none",), slots=(), source="pretraining")  # an encoder's own heads


class MultiCorpus(nn.Module):
    """Reads the encoder's top layer; heads[k] are those of corpus k."""

    def __init__(self, encoder: Bert, schemas: Sequence[LabelSchema], *, width: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.intent_heads = nn.ModuleList(nn.Linear(width, len(s.intents)) for s in schemas)
        self.tag_heads = nn.ModuleList(nn.Linear(width, len(s.tags)) for s in schemas)

    def loss(self, batch: PackedBatch, corpus: int, *, tag_weight: float) -> Tensor:
        """Mean over records of intent loss + `tag_weight` * summed tag loss, in nats."""
        intent, tag = self._logits(batch, corpus)
        tags = F.cross_entropy(tag, batch.tags, reduction="sum") / batch.num_records
        return F.cross_entropy(intent, batch.intents) + tag_weight * tags

    @torch.no_grad()
    def score(self, batch: PackedBatch, corpus: int) -> Tensor:
        """int64[2]: the right intents and the right tags of a batch."""
        intent, tag = self._logits(batch, corpus)
        right = (intent.argmax(1) == batch.intents).sum(), (tag.argmax(1) == batch.tags).sum()
        return torch.stack(right)

    def _logits(self, batch: PackedBatch, corpus: int) -> tuple[Tensor, Tensor]:
        states = self.encoder.layer_states(batch)
        return (
            self.intent_heads[corpus](states.records[-1]),
            self.tag_heads[corpus](states.tokens[-1]),
        )


@dataclass(frozen=True)
class Progress:
    """Progress of a pretraining: `step` of `steps`, the mean loss since the last report."""

    step: int
    steps: int
    loss: float
    seconds_left: float


@dataclass(frozen=True, eq=False)
class Pretrained:
    """The result: encoder, corpora, and for each corpus its held-out (intent, tag) accuracy."""

    encoder: Bert
    corpora: tuple[PublicCorpus, ...]
    accuracy: tuple[tuple[float, float], ...]
    seconds: float


def pretrain(
    config: PretrainingConfig,
    *,
    folder: Path,
    data_dir: Path,
    cache_dir: Path,
    report: Callable[[Progress], None],
) -> Pretrained:
    """Train, from the checkpoint in `folder` where there is one.

    Raises: InvalidInput for an encoder or a corpus that cannot be used.
    """
    encoder = _encoder(config)
    corpora = open_corpora(config, encoder, data_dir=data_dir, cache_dir=cache_dir)
    width = encoder.intent_head.in_features
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_seed(config.seed, "pretraining heads"))
        model = MultiCorpus(encoder, [each.corpus.schema for each in corpora], width=width)
    seconds = _train(model, corpora, config, folder=folder, report=report)
    model.eval()
    accuracy = tuple(_accuracy(model, each, k) for k, each in enumerate(corpora))
    return Pretrained(encoder, corpora, accuracy, seconds)


def _encoder(config: PretrainingConfig) -> Bert:
    """The encoder before its first step.

    Raises: InvalidInput for a vocabulary with an encoder that supports none.
    """
    encoder = bert.build(config.encoder, schema=SMALL, seed=config.seed)
    if config.vocabulary is not None:
        encoder.keep_pieces(config.vocabulary)
    if config.frozen_layers:
        tables = (encoder.word, encoder.position, encoder.kind, encoder.embedding_norm)
        for part in (*tables, *encoder.layers[: config.frozen_layers]):
            part.requires_grad_(False)
    return encoder


def _train(
    model: MultiCorpus,
    corpora: Sequence[PublicCorpus],
    config: PretrainingConfig,
    *,
    folder: Path,
    report: Callable[[Progress], None],
) -> float:
    """Take all steps; returns the seconds they took, those before an interruption included."""
    steps = config.epochs * sum(_batches(each, config) for each in corpora)
    optimizer = _optimizer(model, config)
    rates = [group["lr"] for group in optimizer.param_groups]
    done, seconds = _restore(model, optimizer, folder)
    started = saved = time.perf_counter()
    first, losses = done, []
    model.train()
    for number, (corpus, ids) in enumerate(_schedule(corpora, config)):
        if number < done:
            continue
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * (1 - number / steps)
        model.encoder.begin_step(number)
        batch = corpora[corpus].loader.batch(ids)
        with passes_in(config.precision, batch.tags.device):
            loss = model.loss(batch, corpus, tag_weight=config.tag_weight)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's
        nn.utils.clip_grad_norm_(model.parameters(), _MAX_NORM)
        optimizer.step()
        losses.append(float(loss.detach()))
        now = time.perf_counter()
        if number % 20 == 0 or number + 1 == steps:
            left = (now - started) / (number + 1 - first) * (steps - number - 1)
            report(Progress(number + 1, steps, float(np.mean(losses)), left))
            losses = []
        if now - saved > _SECONDS_BETWEEN_CHECKPOINTS or number + 1 == steps:
            _save(model, optimizer, folder, step=number + 1, seconds=seconds + now - started)
            saved = now
    return seconds + time.perf_counter() - started


def _batches(each: PublicCorpus, config: PretrainingConfig) -> int:
    return -(-len(each.train) // config.batch_size)


def _schedule(
    corpora: Sequence[PublicCorpus], config: PretrainingConfig
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """(corpus, record ids) of every step: in an epoch each record once, corpora mixed."""
    for epoch in range(config.epochs):
        draw = generator(config.seed, "pretraining", "epoch", epoch)
        parts = [
            (k, ids)
            for k, each in enumerate(corpora)
            for ids in np.array_split(draw.permutation(each.train), _batches(each, config))
        ]
        for place in draw.permutation(len(parts)):
            yield parts[place]


def _optimizer(model: MultiCorpus, config: PretrainingConfig) -> torch.optim.AdamW:
    encoder = model.encoder
    unused = set(nn.ModuleList([encoder.intent_head, encoder.tag_head, encoder.crf]).parameters())
    trained = [p for p in encoder.parameters() if p.requires_grad and p not in unused]
    heads = [*model.intent_heads.parameters(), *model.tag_heads.parameters()]
    return torch.optim.AdamW(
        [
            {"params": trained, "lr": config.learning_rate},
            {"params": heads, "lr": config.head_learning_rate},
        ],
        weight_decay=config.weight_decay,
        fused=True,
    )


def _restore(model: MultiCorpus, optimizer: torch.optim.AdamW, folder: Path) -> tuple[int, float]:
    """The next step and the seconds spent before it; (0, 0) without a checkpoint."""
    saved = checkpoint.load(folder)
    if saved is None:
        return 0, 0.0
    model.load_state_dict(saved.part("model"))
    moments = saved.part("optimizer")
    for number, parameter in enumerate(_parameters(optimizer)):
        if f"{number}.exp_avg" in moments:
            optimizer.state[parameter] = {
                name: moments[f"{number}.{name}"] for name in ("step", "exp_avg", "exp_avg_sq")
            }
    return saved.state["step"], saved.state["seconds"]


def _save(
    model: MultiCorpus, optimizer: torch.optim.AdamW, folder: Path, *, step: int, seconds: float
) -> None:
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for number, parameter in enumerate(_parameters(optimizer)):
        for name, tensor in optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer.{number}.{name}"] = tensor
    checkpoint.save(
        folder,
        checkpoint.Checkpoint(tensors=tensors, state={"step": step, "seconds": seconds}),
    )


def _parameters(optimizer: torch.optim.AdamW) -> list[nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _accuracy(model: MultiCorpus, each: PublicCorpus, corpus: int) -> tuple[float, float]:
    """Share of right intents and right tags among the held-out records."""
    lengths = each.corpus.lengths[each.held_out]
    right = sum(
        model.score(batch, corpus)
        for _, batch in each.loader.evaluation_batches(each.held_out, max_tokens=2_048)
    )
    intents, tags = torch.as_tensor(right).tolist()
    return intents / len(lengths), tags / int(lengths.sum())
