"""From a finished pretraining to the encoder's folder: weights, moments, scores of
names, card.
"""

from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from trainables import catalogue
from trainables.data.training_overlap import (
    Hashes,
    hashes_of,
    keys_of,
    read_hashes,
    write_hashes,
)
from trainables.dp.seeding import generator
from trainables.models.encoders.about import (
    LEARNT,
    MOMENTS,
    NAMES,
    WEIGHTS,
    about_of,
    write_about,
)
from trainables.models.encoders.rows import (
    BothMoments,
    LayerStates,
    Recipe,
    moments_of,
    pack,
)
from trainables.models.encoders.source import SCALE
from trainables.models.nlu.bert import Bert
from trainables.models.nlu.bert_weights import save_encoder
from trainables.models.nlu.label_names import (
    NameScores,
    rows_of_names,
    tag_names,
    with_bias,
)
from trainables.pretraining.config import PretrainingConfig
from trainables.pretraining.loop import Pretrained, PublicCorpus

BITS = (8, 16, 32)  # of a weight
_LARGEST = 127
_ROWS_FROM = 4_000  # public records that the moments are computed from
_RECORDS = 3_000  # of each corpus, that names are learned on
_EPOCHS = 3
_LEARNING_RATE = 0.02
_AT_ONCE = (1_024, 256)  # tokens, records
_SIZE = 128  # entries of a name's vector


def write(
    done: Pretrained, config: PretrainingConfig, place: Path, *, bits: int = 32
) -> dict[str, Any]:
    """Write the folder of an encoder with its pieces into `place` and return its card.
    Weights have `bits` (8, 16 or 32) a number, the scores of names at most 16. The
    description is written last, so that a folder without it is incomplete.
    """
    encoder = done.encoder.eval()
    layers = config.layers or tuple(range(config.encoder.num_layers + 1))
    place.mkdir(parents=True, exist_ok=True)
    save_encoder(encoder.state_dict(), encoder.sizes, encoder.cutter, place)
    start = about_of(config.encoder.encoder)
    before = [] if start is None else [read_hashes(start.place / LEARNT)]
    write_hashes(place / LEARNT, [*before, *map(learnt, done.corpora)])
    found = moments(encoder, done.corpora, layers, seed=config.seed)
    save_file(pack(found), place / MOMENTS)
    names = learn_names(Recipe(encoder, layers, found), done.corpora, seed=config.seed)
    save_file(vars(names), place / NAMES)
    for file, kept in ((WEIGHTS, bits), (NAMES, min(bits, 16))):
        round_tensors(place / file, bits=kept)
    # The description last: its presence shows that the folder is complete.
    about = card(done, config)
    write_about(place, card=about, layers=layers)
    return about


def round_tensors(file: Path, *, bits: int) -> None:
    """Write the tensors of a file anew in so many bits; whole numbers keep their type.

    In 8 bits a matrix has one float32 scale a row, and the error of an entry is at most
    1/254 of the largest of its row. Vectors keep 16 bits.
    """
    if bits == 32:
        return
    kept: dict[str, Tensor] = {}
    for name, tensor in load_file(file).items():
        if not tensor.is_floating_point():
            kept[name] = tensor.clone()  # of what the map of the file holds
        elif bits == 8 and tensor.dim() > 1:
            rows = tensor.flatten(1)
            scale = rows.abs().amax(1) / _LARGEST
            scale = scale.clamp(min=torch.finfo(torch.float32).tiny)
            whole = (rows / scale[:, None]).round().clamp(-_LARGEST, _LARGEST)
            kept[name] = whole.to(torch.int8).view(tensor.shape)
            kept[name + SCALE] = scale
        else:
            kept[name] = tensor.half()
    save_file(kept, file, metadata={"format": "pt"})


def moments(
    encoder: Bert,
    corpora: tuple[PublicCorpus, ...],
    layers: tuple[int, ...],
    *,
    seed: int,
) -> BothMoments:
    """Moments of tokens and records of `layers`, over records drawn equally from all
    corpora.
    """
    total = sum(len(each.train) for each in corpora)

    @torch.no_grad()
    def states() -> Iterator[LayerStates]:
        for number, each in enumerate(corpora):
            share = max(2, min(len(each.train), _ROWS_FROM * len(each.train) // total))
            drawn = generator(seed, "moments", number).permutation(each.train)[:share]
            for _, batch in each.loader.evaluation_batches(
                np.sort(drawn), max_tokens=2_048
            ):
                yield encoder.layer_states(batch)

    return moments_of(states(), layers)


def card(done: Pretrained, config: PretrainingConfig) -> dict[str, Any]:
    """The card of the encoder, its corpora and start, as plain data."""
    start = about_of(config.encoder.encoder)
    return {
        "name": config.name,
        "private_records_read": 0,
        "starts_from": done.encoder.provenance,
        "corpora_of_start": [] if start is None else list(start.corpora),
        "corpora": [
            {
                "name": each.corpus.name,
                "licence": _licence(each.corpus.name),
                "records": len(each.train),
                "held_out": len(each.held_out),
                "texts_left_out": each.left_out,
                "without_schema_label": each.unlabelled,
                "held_out_intent_accuracy": round(intents, 4),
                "held_out_tag_accuracy": round(tags, 4),
            }
            for each, (intents, tags) in zip(done.corpora, done.accuracy, strict=True)
        ],
        "left_out_by_the_lists_of": list(config.leave_out),
        "training": config.model_dump(
            mode="json",
            include={
                *("frozen_layers", "epochs", "batch_size", "learning_rate"),
                *("head_learning_rate", "tag_weight", "weight_decay", "seed"),
            },
        ),
        "code_version": _version(),
    }


def learnt(each: PublicCorpus) -> Hashes:
    """The hashes of the texts that a pretraining reads of a corpus, the held-out ones
    included.
    """
    return hashes_of(keys_of(each.corpus, np.concatenate([each.train, each.held_out])))


def _licence(corpus: str) -> str:
    """As the entry of a corpus states it; empty where it does not."""
    return str(catalogue.entry("datasets", corpus).licence)


def _version() -> str:
    try:
        return version("dp-nlu-sweep")
    except PackageNotFoundError:
        return "unknown"


class _Task(NamedTuple):
    """Rows of tokens (kind 0) or records (kind 1) of one corpus, their labels, and the
    vectors of the labels' names.
    """

    kind: int
    rows: Tensor
    labels: Tensor
    names: Tensor


def learn_names(
    recipe: Recipe, corpora: Sequence[PublicCorpus], *, seed: int
) -> NameScores:
    """Softmax regression through the names, on `_RECORDS` records of each corpus, by
    Adam.
    """
    projection = _projection(recipe, corpora)
    tasks = [
        task for each in corpora for task in _tasks(recipe, each, projection, seed=seed)
    ]
    maps = [
        torch.zeros(task.names.shape[1], task.rows.shape[1] + 1, requires_grad=True)
        for task in tasks[:2]
    ]
    optimizer = torch.optim.Adam(maps, lr=_LEARNING_RATE)
    steps = _schedule(tasks, seed=seed)
    rates = LambdaLR(optimizer, lambda number: 1 - number / len(steps))
    for task, chosen in steps:
        scores = (
            with_bias(task.rows[chosen].float()) @ maps[task.kind].t() @ task.names.t()
        )
        optimizer.zero_grad()
        F.cross_entropy(scores, task.labels[chosen]).backward()  # type: ignore[no-untyped-call]  # torch's
        optimizer.step()
        rates.step()
    return NameScores(projection, *(each.detach() for each in maps))


def _projection(recipe: Recipe, corpora: Sequence[PublicCorpus]) -> Tensor:
    """[E, N]: the directions in which the names of all corpora differ most."""
    names = sorted({n for each in corpora for n in each.corpus.schema.intents})
    slots = sorted({n for each in corpora for n in each.corpus.schema.slots})
    rows = rows_of_names(recipe, [*names, *slots])
    *_, directions = torch.linalg.svd(rows - rows.mean(0), full_matrices=False)
    found: Tensor = directions[:_SIZE].t().contiguous()
    return found


def _tasks(
    recipe: Recipe, each: PublicCorpus, projection: Tensor, *, seed: int
) -> tuple[_Task, _Task]:
    schema = each.corpus.schema
    drawn = generator(seed, "names", each.corpus.name).permutation(each.train)[
        :_RECORDS
    ]
    found = []
    for _, batch in each.loader.evaluation_batches(np.sort(drawn), max_tokens=2_048):
        of_tokens, of_records = recipe.of_batch(batch)
        found.append((of_tokens.half(), batch.tags, of_records.half(), batch.intents))
    tokens, tags, records, intents = (
        torch.cat(part) for part in zip(*found, strict=True)
    )
    of_slots, of_intents = (
        F.normalize(rows_of_names(recipe, names) @ projection, dim=1)
        for names in (schema.slots, schema.intents)
    )
    return (
        _Task(0, tokens, tags, tag_names(schema, of_slots)),
        _Task(1, records, intents, of_intents),
    )


def _schedule(tasks: Sequence[_Task], *, seed: int) -> list[tuple[_Task, Tensor]]:
    """The task of every step and which of its rows, mixed."""
    draw = generator(seed, "names")
    steps = []
    for task in list(tasks) * _EPOCHS:
        order = torch.from_numpy(draw.permutation(len(task.labels)))
        steps += [(task, chosen) for chosen in torch.split(order, _AT_ONCE[task.kind])]
    return [steps[k] for k in draw.permutation(len(steps))]
