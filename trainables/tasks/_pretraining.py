"""Pretraining of a small LM on public text, once for a whole sweep."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from trainables.config.trial import SynthesisConfig
from trainables.data.corpus import make_once
from trainables.data.texts import EncodedTexts
from trainables.dp.seeding import generator, stream_seed
from trainables.generation.material import PARSES, StageTexts
from trainables.io.documents import digest_of
from trainables.models.text.causal_lm import LmModule
from trainables.models.text.hub_lm import LmSource
from trainables.system.checkpoint import write_tensors

_REPEATS = 3  # of the public part, which is small and of the right kind
_BATCH = 64
_MAX_TOKENS = 8_192  # of a pass without gradients
_RECIPE = "mean over tokens"  # of the training below, a part of the cache's key


def pretrain(
    source: LmSource,
    public: StageTexts,
    *,
    stage: str,
    synthesis: SynthesisConfig,
    seed: int,
    cache_dir: Path,
) -> LmModule:
    """A model of a source pretrained on the public texts, kept in `cache_dir` for other
    trials.
    """
    model = source.make()
    if not source.from_scratch or synthesis.pretrain_epochs == 0 or not public.texts:
        return model
    about = [
        _RECIPE,
        source.key(),
        stage,
        seed,
        synthesis.max_tokens,
        synthesis.pretrain_epochs,
        synthesis.pretrain_learning_rate,
        list(public.texts),
        list(public.prompts or ()),
    ]

    def make(folder: Path) -> None:
        _train(
            model, source, public, synthesis=synthesis, seed=stream_seed(seed, stage)
        )
        write_tensors(folder / "weights.safetensors", model.state_dict())

    folder = make_once(cache_dir, f"lm-{digest_of(about)[:16]}", make)
    model.load_state_dict(load_file(str(folder / "weights.safetensors")))
    return model


def _train(
    model: Any,
    source: LmSource,
    public: StageTexts,
    *,
    synthesis: SynthesisConfig,
    seed: int,
) -> None:
    """Plain Adam over shuffled batches, the learning rate falling to 0."""
    texts = EncodedTexts(
        public.texts,
        source.tokenizer,
        max_tokens=synthesis.max_tokens,
        prompts=public.prompts,
    )
    steps = synthesis.pretrain_epochs * -(-len(texts) // _BATCH)
    adam = torch.optim.AdamW(model.parameters(), lr=synthesis.pretrain_learning_rate)
    falling = torch.optim.lr_scheduler.LambdaLR(
        adam, lambda step: min(1.0, (step + 1) / 50) * max(0.0, 1 - step / steps)
    )
    model.train()
    for epoch in range(synthesis.pretrain_epochs):
        order = generator(seed, "pretraining", epoch).permutation(len(texts))
        for low in range(0, len(order), _BATCH):
            model.begin_step("pretraining", epoch, low)
            _, values = model.token_losses(texts.batch(order[low : low + _BATCH]))
            loss = values.mean()
            adam.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            adam.step()
            falling.step()


def mix_texts(stage: str, own: StageTexts, utterances: Sequence[str]) -> StageTexts:
    """The public part of a stage, repeated, and behind it, where the stage writes
    utterances, those of other corpora, without prompts.
    """
    prompts = [None] * len(own.texts) if own.prompts is None else own.prompts
    others = [] if stage == PARSES else utterances
    return StageTexts(
        [*own.texts] * _REPEATS + [*others],
        [*prompts] * _REPEATS + [None] * len(others),
    )


@torch.no_grad()
def mean_token_loss(model: Any, texts: EncodedTexts) -> float:
    """Mean over all counted tokens of -log p, in nats.

    Mireshghallah et al. 2022 discard setups whose text has more than 2.0 under a GPT-2
    tuned on the domain, since MAUVE and overlap reward odd but diverse text. Their
    model read the private data; here it is trained on public text alone.
    """
    model.eval()
    device = next(model.parameters()).device
    total, count = 0.0, 0
    for ids in texts.by_length(_MAX_TOKENS):
        _, values = model.token_losses(texts.batch(ids).to(device))
        total, count = total + float(values.double().sum()), count + len(values)
    return total / max(1, count)
