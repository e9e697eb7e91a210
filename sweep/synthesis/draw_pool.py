"""Drawing from exported models by several processes of this machine. Blocks of texts have separate
seeds, so the texts are those of a single process.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sweep.synthesis.trained_text import models_of, open_trained
from trainables.config import SynthesisConfig
from trainables.generation._drawer import BLOCK, ModelDrawer

_held: dict[str, Any] = {}  # the models of a process of the pool


Draw = Callable[..., list[str]]  # stage, number, prompts, num_beams, seed: see `ModelDrawer`


@contextmanager
def draw_pool(folder: Path, parses: Path | None, *, workers: int) -> Iterator[Draw]:
    """A function that draws from the models of two folders (`parses` None: of one) in `workers`
    processes during the block, each on one thread.
    """
    pool = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),  # threads of torch do not survive a fork
        initializer=_open,
        initargs=(folder, parses),
    )
    with pool:
        yield partial(_draw, pool)


def _draw(
    pool: ProcessPoolExecutor,
    stage: str,
    *,
    number: int,
    prompts: Sequence[str] | None,
    num_beams: int,
    seed: int,
) -> list[str]:
    """As `ModelDrawer` does with that seed."""
    beginnings: Sequence[str | None] = [None] * number if prompts is None else prompts
    blocks = [
        pool.submit(_draw_block, stage, low, list(beginnings[low : low + BLOCK]), num_beams, seed)
        for low in range(0, len(beginnings), BLOCK)
    ]
    return [text for block in blocks for text in block.result()]


def _open(folder: Path, parses: Path | None) -> None:
    import torch

    torch.set_num_threads(1)
    trained = open_trained(folder)
    models, tokenizers = models_of(trained, None if parses is None else open_trained(parses))
    _held.update(models=models, tokenizers=tokenizers, synthesis=trained.synthesis)


def _draw_block(
    stage: str, low: int, beginnings: list[str | None], num_beams: int, seed: int
) -> list[str]:
    synthesis: SynthesisConfig = _held["synthesis"]
    models = {stage: _held["models"][stage]}
    drawer = ModelDrawer(models, _held["tokenizers"][stage], synthesis, seed=seed)
    return drawer.block(stage, low, beginnings, num_beams=num_beams)
