"""Draws texts from the models of a trial: plain sampling and multinomial beam search.

As in the paper (Mireshghallah et al. 2022), `transformers` draws: `top_k` 50 of the
scores, temperature 1, width 1 is plain sampling. At width W each step draws 2 W of the
W x V continuations without replacement from the softmax of summed log-probabilities and
keeps the best W that do not end. A text that ended competes by its log-probability over
its length.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch

from trainables.config.sections import SynthesisConfig
from trainables.data.texts import Tokenizer, opening
from trainables.dp.seeding import stream_seed
from trainables.system.communication import Communicator

BLOCK = 256  # texts of one process at a time; equal for any number of processes


def draw(
    generator: Any,
    openings: Sequence[Sequence[int]],
    *,
    seed: int,
    end: int,
    max_tokens: int,
    num_beams: int = 1,
    top_k: int = 50,
    temperature: float = 1.0,
) -> list[list[int]]:
    """One text of an `LmModule.generator()` behind each opening (ids), without opening
    and end.

    A text that does not reach the id `end` within `max_tokens`, its opening included,
    is cut there. Repeatable by `seed`.
    """
    from transformers import GenerationConfig

    how = GenerationConfig(
        do_sample=True,
        num_beams=num_beams,
        top_k=top_k,
        temperature=temperature,
        max_length=max_tokens,
        eos_token_id=end,
        pad_token_id=end,
    )
    texts: list[list[int]] = [[] for _ in openings]

    length = list(map(len, openings)).__getitem__
    device = generator.device
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        # Openings of one length together: none is padded, and each text has its whole
        # room.
        for given, places in groupby(sorted(range(len(openings)), key=length), length):
            own = list(places)
            ids = torch.tensor([openings[place] for place in own], device=device)
            found = generator.generate(
                ids, attention_mask=torch.ones_like(ids), generation_config=how
            )
            for place, text in zip(own, found[:, given:].tolist(), strict=True):
                texts[place] = text[: text.index(end)] if end in text else text
    return texts


@dataclass(frozen=True)
class ModelDrawer:
    """A `TextSampler` over the models of the stages, the work shared among the
    processes. Texts do not depend on the drawing process. Those behind no prompt are
    drawn by plain sampling.
    """

    models: Mapping[str, Any]
    tokenizer: Tokenizer
    synthesis: SynthesisConfig
    seed: int
    comm: Communicator

    def __call__(self, stage: str, prompts: Sequence[str | None]) -> list[str]:
        """A text behind each of `prompts`."""
        synthesis, tokenizer = self.synthesis, self.tokenizer
        generator = self.models[stage].eval().generator()

        def block(low: int) -> list[str]:
            openings = prompts[low : low + BLOCK]
            ids = draw(
                generator,
                [
                    opening(tokenizer, each, synthesis.max_tokens)[0]
                    for each in openings
                ],
                seed=stream_seed(self.seed, stage, low),
                end=tokenizer.end,
                max_tokens=synthesis.max_tokens,
                num_beams=1 if None in openings else synthesis.num_beams,
                top_k=synthesis.top_k,
                temperature=synthesis.temperature,
            )
            # A model of bytes may draw a NUL, which no file of text holds.
            return [
                " ".join(tokenizer.decode(text).replace("\0", "").split())
                for text in ids
            ]

        blocks = range(0, len(prompts), BLOCK)
        mine = {
            low: block(low) for low in blocks[self.comm.rank :: self.comm.world_size]
        }
        every = {
            low: texts
            for share in self.comm.gather(mine)
            for low, texts in share.items()
        }
        return [text for low in blocks for text in every[low]]
