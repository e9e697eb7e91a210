"""Draws texts from the models of a trial, the work shared among its processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainables.data.texts import Tokenizer, opening
from trainables.generation.decoding import Decoding, draw
from trainables.sections import SynthesisConfig
from trainables.seeding import stream_seed
from trainables.system.communication import Alone, Communicator

BLOCK = 256  # texts of one process at a time; equal for any number of processes


class ModelDrawer:
    """A `Drawer` over the models of the stages. Texts do not depend on the drawing process."""

    def __init__(
        self,
        models: Mapping[str, Any],
        tokenizer: Tokenizer,
        synthesis: SynthesisConfig,
        *,
        seed: int,
        comm: Communicator | None = None,
    ) -> None:
        self._models = models
        self._tokenizer = tokenizer
        self._synthesis = synthesis
        self._seed = seed
        self._comm = comm or Alone()

    def __call__(
        self, stage: str, *, number: int, prompts: Sequence[str] | None, num_beams: int
    ) -> list[str]:
        """`number` texts, or one behind each of `prompts`."""
        beginnings: Sequence[str | None] = [None] * number if prompts is None else prompts
        blocks = list(range(0, len(beginnings), BLOCK))
        mine = {
            low: self.block(stage, low, beginnings[low : low + BLOCK], num_beams=num_beams)
            for low in blocks[self._comm.rank :: self._comm.world_size]
        }
        every = {low: texts for share in self._comm.gather(mine) for low, texts in share.items()}
        return [text for low in blocks for text in every[low]]

    def block(
        self, stage: str, low: int, beginnings: Sequence[str | None], *, num_beams: int
    ) -> list[str]:
        """Texts `low`, `low` + 1, ... of a draw, at most `BLOCK`, each behind its prompt."""
        synthesis, tokenizer = self._synthesis, self._tokenizer
        model = self._models[stage]
        model.eval()
        how = Decoding(
            end=tokenizer.end,
            max_tokens=synthesis.max_tokens,
            num_beams=num_beams,
            top_k=synthesis.top_k,
            temperature=synthesis.temperature,
        )
        openings = [opening(tokenizer, each, synthesis.max_tokens)[0] for each in beginnings]
        ids = draw(model, openings, how, seed=stream_seed(self._seed, stage, low))
        # A model of bytes may draw a NUL, which no file of text holds.
        return [" ".join(tokenizer.decode(text).replace("\0", "").split()) for text in ids]
