"""Public pretraining: the corpora, split into training and held-out records, and the
loop of steps over all of them, with checkpoints and progress reports.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor, nn

from trainables.data.batches import Loader, PackedBatch
from trainables.data.corpus import Corpus, open_corpus
from trainables.data.records import LabelSchema
from trainables.dp.layers.precision import passes_in
from trainables.dp.population import Ids
from trainables.dp.seeding import generator, stream_seed, torch_seeded
from trainables.errors import InvalidInput
from trainables.models.encoders.pieces import WordCutter
from trainables.models.nlu.bert import Bert
from trainables.pretraining.config import PretrainingConfig
from trainables.pretraining.left_out import hashes_of_texts
from trainables.system import checkpoint

_HELD_OUT = 0.02  # of a corpus, to see how far training is; at most:
_MOST_HELD_OUT = 500
_FEW_POSITIONS = 128  # of an encoder with fewer pieces
_MARKS = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
_SECONDS_BETWEEN_CHECKPOINTS = 60.0
_MAX_NORM = 1.0
# Of the encoder's own heads, which are not trained.
SMALL = LabelSchema(intents=("none",), slots=(), source="pretraining")


@dataclass(frozen=True, eq=False)
class PublicCorpus:
    """One corpus: `train` and `held_out` are ids of its records, `left_out` counts
    those whose text a list names, `unlabelled` those with a label outside of the
    schema.
    """

    corpus: Corpus
    loader: Loader
    train: Ids
    held_out: Ids
    left_out: int
    unlabelled: int


class MultiCorpus(nn.Module):
    """Reads the encoder's top layer; heads[k] are those of corpus k."""

    def __init__(
        self, encoder: Bert, schemas: Sequence[LabelSchema], *, width: int
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.intent_heads = nn.ModuleList(
            nn.Linear(width, len(s.intents)) for s in schemas
        )
        self.tag_heads = nn.ModuleList(nn.Linear(width, len(s.tags)) for s in schemas)

    def loss(self, batch: PackedBatch, corpus: int, *, tag_weight: float) -> Tensor:
        """Mean over records of intent loss + `tag_weight` * summed tag loss, in
        nats.
        """
        intent, tag = self._logits(batch, corpus)
        tags = F.cross_entropy(tag, batch.tags, reduction="sum") / batch.num_records
        return F.cross_entropy(intent, batch.intents) + tag_weight * tags

    @torch.no_grad()
    def score(self, batch: PackedBatch, corpus: int) -> Tensor:
        """int64[2]: the right intents and the right tags of a batch."""
        intent, tag = self._logits(batch, corpus)
        pairs = (intent, batch.intents), (tag, batch.tags)
        return torch.stack([(found.argmax(1) == gold).sum() for found, gold in pairs])

    def _logits(self, batch: PackedBatch, corpus: int) -> tuple[Tensor, Tensor]:
        states = self.encoder.layer_states(batch)
        return (
            self.intent_heads[corpus](states.records[-1]),
            self.tag_heads[corpus](states.tokens[-1]),
        )


@dataclass(frozen=True)
class Progress:
    """Progress of a pretraining: step number `step` (from 1) of `steps`, the mean loss
    in nats since the last report, and the seconds that the other steps will take at the
    present speed.
    """

    step: int
    steps: int
    loss: float
    seconds_left: float


@dataclass(frozen=True, eq=False)
class Pretrained:
    """The result: encoder, corpora, and for each corpus its held-out (intent, tag)
    accuracy.
    """

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
    """Train an encoder with a pair of heads for each corpus, from the checkpoint in
    `folder` where there is one, and measure it on the held-out records. `report` is
    called every 20 steps and at the last. Nothing is private: the corpora must be
    public.

    Raises: InvalidInput for an encoder, a vocabulary or a corpus that cannot be used.
    """
    encoder = config.encoder.build(schema=SMALL, seed=config.seed)
    if config.vocabulary is not None:
        keep_pieces(encoder, config.vocabulary)
    if config.frozen_layers:
        tables = (encoder.word, encoder.position, encoder.kind, encoder.embedding_norm)
        for part in (*tables, *encoder.layers[: config.frozen_layers]):
            part.requires_grad_(False)
    corpora = open_corpora(config, encoder, data_dir=data_dir, cache_dir=cache_dir)
    width = encoder.intent_head.in_features
    with torch_seeded(stream_seed(config.seed, "pretraining heads")):
        model = MultiCorpus(
            encoder, [each.corpus.schema for each in corpora], width=width
        )
    seconds = _train(model, corpora, config, folder=folder, report=report)
    model.eval()
    accuracy = tuple(_accuracy(model, each, k) for k, each in enumerate(corpora))
    return Pretrained(encoder, corpora, accuracy, seconds)


def open_corpora(
    config: PretrainingConfig, encoder: Bert, *, data_dir: Path, cache_dir: Path
) -> tuple[PublicCorpus, ...]:
    """All corpora of a pretraining, in its order.

    Raises: InvalidInput for one that is missing, damaged or without a record to train
    on.
    """
    leave_out = hashes_of_texts(config.leave_out)
    found = []
    for number, each in enumerate(config.corpora):
        corpus = open_corpus(each, data_dir=data_dir, cache_dir=cache_dir)
        gone = np.isin(corpus.record_hashes(b""), leave_out)
        usable = np.flatnonzero(~gone & ~corpus.outside).astype(np.int64)
        if len(usable) < 2:
            raise InvalidInput(
                f"expected at least 2 records in corpora[{number}] ({each.name})"
            )
        order = generator(config.seed, "pretraining", number).permutation(usable)
        out = min(_MOST_HELD_OUT, max(1, round(_HELD_OUT * len(order))))
        found.append(
            PublicCorpus(
                corpus=corpus,
                loader=Loader(corpus, encoder.feature_table(corpus.types)),
                train=np.sort(order[out:]),
                held_out=np.sort(order[:out]),
                left_out=int(gone.sum()),
                unlabelled=int((corpus.outside & ~gone).sum()),
            )
        )
    return tuple(found)


def keep_pieces(encoder: Bert, count: int) -> None:
    """Remove all pieces but `count`, numbered anew from 0, and all but the first
    positions: most weights of a small encoder are its vocabulary, which a BERT has in
    the order of frequency.

    The kept pieces are public and fixed: the special ones, each ASCII sign alone and
    inside of a word, then the first ones of ASCII letters or digits. Every word of
    ASCII letters can still be cut into pieces.

    Raises: InvalidInput for an encoder whose tokenizer is not WordPiece, or has fewer
    pieces.
    """
    tokenizer: Any = None if encoder.cutter is None else encoder.cutter.tokenizer
    described = (
        {} if tokenizer is None else json.loads(tokenizer.backend_tokenizer.to_str())
    )
    if described.get("model", {}).get("type") != "WordPiece":
        raise InvalidInput(
            "expected vocabulary with an encoder of word pieces (WordPiece)"
        )
    before: dict[str, int] = described["model"]["vocab"]
    bare = {
        p: p.removeprefix("##")
        for p in sorted(before, key=before.__getitem__)
        if p.isascii()
    }
    special = [each["content"] for each in described["added_tokens"]]
    signs = [piece for piece, sign in bare.items() if len(sign) == 1]
    words = [piece for piece, word in bare.items() if len(word) > 1 and word.isalnum()]
    least, kept = len(special) + len(signs), [*special, *signs, *words]
    if not least <= count <= len(kept):
        raise InvalidInput(
            f"expected vocabulary from {least} to {len(kept)}, got {count}"
        )
    number = {piece: place for place, piece in enumerate(kept[:count])}
    for each in described["added_tokens"]:
        each["id"] = number[each["content"]]
    for name, each in described["post_processor"]["special_tokens"].items():
        each["ids"] = [number[name]]
    described["model"]["vocab"] = number
    smaller = type(tokenizer)(
        tokenizer_object=Tokenizer.from_str(json.dumps(described)),
        **{name: getattr(tokenizer, name) for name in _MARKS},
    )
    encoder.cutter = WordCutter(smaller, name=encoder.provenance)
    positions = min(encoder.sizes.positions, _FEW_POSITIONS)
    encoder.sizes = replace(encoder.sizes, vocabulary=count, positions=positions)
    rows = [before[piece] for piece in number]
    for table, chosen in (encoder.word, rows), (encoder.position, range(positions)):
        table.num_embeddings = len(chosen)
        table.weight = nn.Parameter(
            table.weight.detach()[list(chosen)],
            requires_grad=table.weight.requires_grad,
        )


def _train(
    model: MultiCorpus,
    corpora: Sequence[PublicCorpus],
    config: PretrainingConfig,
    *,
    folder: Path,
    report: Callable[[Progress], None],
) -> float:
    """Take all steps; returns the seconds they took, those before an interruption
    included.
    """
    steps = config.epochs * sum(_batches(each, config) for each in corpora)
    optimizer = _optimizer(model, config)
    rates = [group["lr"] for group in optimizer.param_groups]
    done, seconds = _restore(model, optimizer, folder)
    started = saved = time.perf_counter()
    losses = []
    model.train()
    every = enumerate(_schedule(corpora, config))
    for number, (corpus, ids) in islice(every, done, None):
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
            left = (now - started) / (number + 1 - done) * (steps - number - 1)
            report(Progress(number + 1, steps, float(np.mean(losses)), left))
            losses = []
        if now - saved > _SECONDS_BETWEEN_CHECKPOINTS or number + 1 == steps:
            _save(
                model,
                optimizer,
                folder,
                step=number + 1,
                seconds=seconds + now - started,
            )
            saved = now
    return seconds + time.perf_counter() - started


def _batches(each: PublicCorpus, config: PretrainingConfig) -> int:
    return -(-len(each.train) // config.batch_size)


def _schedule(
    corpora: Sequence[PublicCorpus], config: PretrainingConfig
) -> Iterator[tuple[int, Ids]]:
    """(corpus, record ids) of every step: in an epoch each record once, corpora
    mixed.
    """
    for epoch in range(config.epochs):
        draw = generator(config.seed, "pretraining", "epoch", epoch)
        parts = [
            (k, ids)
            for k, each in enumerate(corpora)
            for ids in np.array_split(
                draw.permutation(each.train), _batches(each, config)
            )
        ]
        for place in draw.permutation(len(parts)):
            yield parts[place]


def _optimizer(model: MultiCorpus, config: PretrainingConfig) -> torch.optim.AdamW:
    own_heads = ("intent_head", "tag_head", "crf")
    named = model.encoder.named_parameters()
    trained = [
        p for name, p in named if p.requires_grad and not name.startswith(own_heads)
    ]
    heads = [*model.intent_heads.parameters(), *model.tag_heads.parameters()]
    return torch.optim.AdamW(
        [
            {"params": trained, "lr": config.learning_rate},
            {"params": heads, "lr": config.head_learning_rate},
        ],
        weight_decay=config.weight_decay,
        fused=True,
    )


def _restore(
    model: MultiCorpus, optimizer: torch.optim.AdamW, folder: Path
) -> tuple[int, float]:
    """The next step and the seconds spent before it; (0, 0) without a checkpoint."""
    saved = checkpoint.load(folder)
    if saved is None:
        return 0, 0.0
    model.load_state_dict(saved.part("model"))
    moments: dict[int, dict[str, Tensor]] = {}
    for key, tensor in saved.part("optimizer").items():
        number, name = key.split(".")
        moments.setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict(optimizer.state_dict() | {"state": moments})
    return saved.state["step"], saved.state["seconds"]


def _save(
    model: MultiCorpus,
    optimizer: torch.optim.AdamW,
    folder: Path,
    *,
    step: int,
    seconds: float,
) -> None:
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for number, moments in optimizer.state_dict()["state"].items():
        tensors |= {
            f"optimizer.{number}.{name}": tensor for name, tensor in moments.items()
        }
    state = {"step": step, "seconds": seconds}
    checkpoint.save(folder, checkpoint.Checkpoint(tensors=tensors, state=state))


def _accuracy(
    model: MultiCorpus, each: PublicCorpus, corpus: int
) -> tuple[float, float]:
    """Share of right intents and right tags among the held-out records."""
    lengths = each.corpus.lengths[each.held_out]
    right = sum(
        model.score(batch, corpus)
        for _, batch in each.loader.evaluation_batches(each.held_out, max_tokens=2_048)
    )
    intents, tags = torch.as_tensor(right).tolist()
    return intents / len(lengths), tags / int(lengths.sum())
