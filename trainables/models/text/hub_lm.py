"""Causal LMs of `transformers` with low-rank adapters of ours; any model's source and
folder.

The frozen weights run in the library's modules; the adapters support book-keeping, so
norms by record are exact.

A folder may be another person's export: code in it is never run (by default
`transformers` would ask whoever is at the terminal), and what it names is not fetched
from the hub. Drawing needs nothing else, except for adapters on a model that is no
GPT-2. The folder then has the adapters, and `base.json` identifies the base weights.
They are read from the folder `base` inside, else from `model.encoder`, and must be
identical. An export has `base` as its `model.encoder` where that was a folder, whose
path must not leave.
"""

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from trainables.config.sections import SynthesisConfig
from trainables.data.texts import TextBatch, Tokenizer
from trainables.errors import InvalidData, InvalidInput
from trainables.io.files import dump_json, make_folder, read_written_json
from trainables.models.configs import CausalLmConfig
from trainables.models.encoders import hub
from trainables.models.encoders.adapters import Foreign, refuse_unknown_rows
from trainables.models.encoders.source import quiet, require_all_weights
from trainables.models.text import gpt2
from trainables.models.text.causal_lm import CausalLm, LmModule, LmSizes
from trainables.models.text.tokenizers import (
    PretrainedTokenizer,
    PublicBpe,
    load_bpe,
    train_bpe,
)
from trainables.system.checkpoint import part_of, write_tensors

_SHORT = 5  # tokens of the record whose losses are compared
_NOWHERE = (
    "expected model.encoder to be scratch, a folder or a hub name that can be loaded"
    " without code of its own, got {!r}"
)
_WEIGHT_FILES = (
    *("model.safetensors", "model.safetensors.index.json"),
    *("pytorch_model.bin", "pytorch_model.bin.index.json"),
)
_WEIGHTS, _SIZES, _BASE_FILE = "weights.safetensors", "sizes.json", "base.json"
# Folders, `base` also as the name of an encoder.
_TOKENIZER, _BASE = "tokenizer", "base"


class HubLm(Foreign, LmModule):
    """`inner` is a `transformers` model; records are padded at their end, where nothing
    attends.
    """

    def __init__(self, inner: nn.Module, *, provenance: str) -> None:
        super().__init__()
        self.hold(inner)
        self.provenance = provenance

    def token_losses(self, batch: TextBatch) -> tuple[Tensor, Tensor]:
        """As `LmModule.token_losses`."""
        base: Any = self.inner.base_model
        rows = torch.split(batch.inputs, batch.lengths.tolist())
        hidden = self.states_of(
            rows,
            np.arange(len(rows)),
            len(rows),
            padding=0,
            most=getattr(self.inner.config, "max_position_embeddings", None),
            read=lambda ids, mask: base(
                input_ids=ids, attention_mask=mask, use_cache=False
            )[0],
        )
        logits = self.inner.get_output_embeddings()(hidden[batch.counted])  # type: ignore[operator]  # theirs
        values = F.cross_entropy(logits, batch.targets[batch.counted], reduction="none")
        return torch.repeat_interleave(batch.lengths)[batch.counted], values

    def adapt(self, *, rank: int, alpha: float) -> None:
        """Freeze everything and add adapters to every linear map but the output's."""
        output = self.inner.get_output_embeddings()  # type: ignore[operator]  # theirs
        found = {
            n: each for n, each in self.linear_maps().items() if each is not output
        }
        if not found:
            raise InvalidInput("expected a model with linear maps to adapt, got none")
        self.put_adapters(found, rank=rank, alpha=alpha)
        if next(self.parameters()).device.type != "meta":  # which has shapes alone
            refuse_unknown_rows(self, _batches(self), name=self.provenance)

    def generator(self) -> Any:
        """As `LmModule.generator`."""
        from transformers import GenerationConfig

        self.name_rows(None)
        # Its folder may say how to draw.
        self.inner.generation_config = GenerationConfig()
        return self.inner


def _batches(model: HubLm) -> list[TextBatch]:
    """Three records of random tokens together, and each alone."""
    lengths = [2, 5, 3]
    tokens = _tokens(model, sum(lengths))
    alone = (_batch(own, [len(own)]) for own in torch.split(tokens, lengths))
    return [_batch(tokens, lengths), *alone]


def _tokens(model: HubLm, number: int) -> Tensor:
    drawn = torch.Generator().manual_seed(0)
    size: int = model.inner.config.vocab_size  # type: ignore[union-attr,assignment]  # theirs
    tokens = torch.randint(size, (number,), generator=drawn)
    return tokens.to(next(model.parameters()).device)


def _batch(tokens: Tensor, lengths: list[int]) -> TextBatch:
    there = torch.ones_like(tokens, dtype=torch.bool)
    sizes = torch.tensor(lengths, device=tokens.device)
    keys = torch.arange(len(lengths), device=tokens.device)
    return TextBatch(tokens, tokens, there, sizes, keys)


def require_records_apart(model: HubLm, *, longest: int, name: str) -> None:
    """Refuse a model in which a record's losses change when another of `longest` tokens
    is added, as with positions scaled by the longest record of a batch; and one whose
    losses of a record's first tokens change with those behind them, as a masked
    language model's do, which would learn to copy.

    Raises: InvalidInput naming the encoder `name`.
    """
    short = min(_SHORT, longest)
    if not _first_losses_agree(model, [short], [short, longest]):
        raise InvalidInput(
            "expected model.encoder to be a model that processes each record"
            f" independently, got {name!r}: a record's loss changes with the record"
            " beside it, so clipping bounds nothing"
        )
    if not _first_losses_agree(model, [short], [longest]):
        raise InvalidInput(
            f"expected model.encoder to be a causal LM, got {name!r}: a token's loss"
            " changes with the tokens behind it"
        )


@torch.no_grad()
def _first_losses_agree(model: HubLm, *batches: list[int]) -> bool:
    """Whether batches of records of these lengths, cut from the same tokens, have the
    same losses of the first tokens.
    """
    tokens = _tokens(model, max(map(sum, batches)))
    made = (_batch(tokens[: sum(lengths)], lengths) for lengths in batches)
    found = [model.token_losses(batch)[1].double() for batch in made]
    short = min(_SHORT, *map(len, found))
    return torch.allclose(found[0][:short], found[1][:short], rtol=1e-3, atol=1e-3)


@dataclass(frozen=True)
class Pretrained:
    """A model and its tokenizer as `transformers` finds them under a name, the user's.
    `is_here`: a folder names it, so the hub is not asked, only its cache.
    """

    name: str
    is_here: bool = False

    @property
    def provenance(self) -> str:
        """Without the path of a folder."""
        return f"the public model {hub.published_name(self.name)}"

    def tokenizer(self) -> PretrainedTokenizer:
        """Raises: InvalidInput where there is none that fits."""
        from transformers import AutoTokenizer

        wanted = f"expected a tokenizer beside the model in model.encoder={self.name!r}"
        try:
            inner = self._get(AutoTokenizer)
        except InvalidInput:
            raise InvalidInput(
                f"{wanted}, got none that loads without code of its own"
            ) from None
        if len(inner) < 3:  # the library's result for an empty folder
            raise InvalidInput(f"{wanted}, got an empty one")
        try:
            return PretrainedTokenizer(inner)
        except InvalidInput as problem:
            raise InvalidInput(f"model.encoder={self.name!r}: {problem}") from None

    def fitting(self, synthesis: SynthesisConfig) -> tuple[Any, PretrainedTokenizer]:
        """The model's config and tokenizer. Raises: InvalidInput unless they fit the
        trial.
        """
        from transformers import AutoConfig

        name, about, tokenizer = self.name, self._get(AutoConfig), self.tokenizer()
        vocabulary = getattr(about, "vocab_size", None)
        if vocabulary is None:  # of images, or of several models at once
            raise InvalidInput(_NOWHERE.format(name))
        if about.model_type == "gpt2":
            gpt2.sizes_of(about, positions=synthesis.max_tokens)
        elif synthesis.lora_rank is None:
            raise InvalidInput(
                f"expected synthesis.lora_rank with model.encoder={name!r}: only"
                " GPT-2's layers compute per-example norms for all weights"
            )
        longest = (
            getattr(about, "max_position_embeddings", None) or synthesis.max_tokens
        )
        if synthesis.max_tokens > longest:
            raise InvalidInput(
                f"expected synthesis.max_tokens <= {longest} with"
                f" model.encoder={name!r}, got {synthesis.max_tokens}"
            )
        if tokenizer.size > vocabulary:
            raise InvalidInput(
                f"expected a tokenizer of at most {vocabulary} ids in"
                f" model.encoder={name!r}, got one of {tokenizer.size}"
            )
        return about, tokenizer

    def require_weights(self) -> None:
        """Raises: InvalidInput where there is no file of them, none of which is
        read.
        """
        from transformers.utils.hub import has_file

        try:
            found = any(has_file(self.name, file) for file in _WEIGHT_FILES)
        except OSError:  # no such repository, or none that may be read
            found = False
        if not found:
            raise InvalidInput(
                f"expected weights in model.encoder={self.name!r}, got none"
                f" ({_WEIGHT_FILES[0]})"
            )

    def model(self, *, positions: int) -> LmModule:
        """For records of at most `positions` tokens.

        Raises: InvalidInput where weights are missing or no numbers, or the model is
        none whose records are apart.
        """
        from transformers import AutoModelForCausalLM

        found, report = self._get(
            AutoModelForCausalLM,
            dtype=torch.float32,
            weights_only=True,
            output_loading_info=True,
        )
        require_all_weights(report, name=self.name)
        if not all(weight.isfinite().all() for weight in found.parameters()):
            raise InvalidData(
                f"expected finite weights in model.encoder={self.name!r}, got others"
            )
        if found.config.model_type == "gpt2":
            return gpt2.causal_lm(found, positions=positions)
        model = HubLm(found, provenance=self.provenance)
        require_records_apart(model, longest=positions, name=self.name)
        return model

    def _get(self, kind: Any, **options: Any) -> Any:
        try:
            with quiet():
                return kind.from_pretrained(
                    self.name,
                    trust_remote_code=False,
                    local_files_only=self.is_here,
                    **options,
                )
        except Exception:  # noqa: BLE001  the library raises many kinds for one missing file
            raise InvalidInput(_NOWHERE.format(self.name)) from None


@dataclass(frozen=True, eq=False)
class LmSource:
    """Where the models of a trial come from: `make()` gives a new model with the same
    first weights at each call, `tokenizer` makes its ids, `provenance` says it in
    words. `from_scratch` is True where the model was trained on no text before.
    """

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
    config: CausalLmConfig,
    synthesis: SynthesisConfig,
    *,
    public: Sequence[str],
    seed: int,
) -> LmSource:
    """The model `config.encoder`. `public` are the texts that a tokenizer may be
    trained on.

    Raises: InvalidInput where it is neither local nor (HF_HUB_OFFLINE permitting) on
    the hub, has no tokenizer, or needs adapters and has none.
    """
    positions = synthesis.max_tokens
    if config.encoder == "scratch":
        own = train_bpe(public, size=synthesis.vocabulary_size)
        make = partial(
            config.build, vocabulary=own.size, positions=positions, seed=seed
        )
        return LmSource(own, make, f"trained from random weights, {config!r}", True)
    found = Pretrained(config.encoder)
    _, tokenizer = found.fitting(synthesis)
    make_loaded = partial(found.model, positions=positions)
    return LmSource(tokenizer, make_loaded, found.provenance, False)


def require_source(config: CausalLmConfig, synthesis: SynthesisConfig) -> None:
    """Check what `source_of` and adapting a pretrained model would need, without
    reading its weights: its config, its tokenizer, a file of weights, and linear maps
    for adapters of `synthesis.lora_rank`, tried on shapes alone.

    Raises: InvalidInput for the first thing that does not fit.
    """
    from transformers import AutoModelForCausalLM

    found = Pretrained(config.encoder)
    about, _ = found.fitting(synthesis)
    found.require_weights()
    if synthesis.lora_rank is None:
        return
    with torch.device("meta"):  # shapes alone
        try:
            inner = AutoModelForCausalLM.from_config(about, trust_remote_code=False)
        except Exception:  # noqa: BLE001  no language model, or sizes that none has
            raise InvalidInput(_NOWHERE.format(found.name)) from None
        model: LmModule = HubLm(inner, provenance="")
        if about.model_type == "gpt2":
            model = CausalLm(gpt2.sizes_of(about, positions=synthesis.max_tokens))
        model.adapt(rank=synthesis.lora_rank, alpha=synthesis.lora_alpha)


def save_lm(
    models: Mapping[str, nn.Module], tokenizer: Tokenizer, folder: Path
) -> None:
    """Write the models of the stages, which share a tokenizer, into `folder`: weights
    as safetensors, each name behind its stage's, and sizes as JSON. Of a model of the
    hub only the trained weights are written, with the digest of its base.
    """
    make_folder(folder)
    sizes = {
        stage: asdict(model.sizes)
        for stage, model in models.items()
        if isinstance(model, CausalLm)
    }
    write_tensors(folder / _WEIGHTS, nn.ModuleDict(models).state_dict())
    dump_json(folder / _SIZES, sizes, indent=1)
    adapted = [model for stage, model in models.items() if stage not in sizes]
    if adapted:
        about = {"weights": adapted[0].provenance, "digest": _digest(adapted[0])}
        dump_json(folder / _BASE_FILE, about, indent=1)
    if isinstance(tokenizer, PublicBpe):
        tokenizer.save(folder)
    elif isinstance(tokenizer, PretrainedTokenizer):
        tokenizer.save(folder / _TOKENIZER)


def load_lm(
    folder: Path,
    stages: Sequence[str],
    config: CausalLmConfig,
    synthesis: SynthesisConfig,
) -> tuple[dict[str, nn.Module], Tokenizer]:
    """The models that `save_lm` wrote, ready to draw from, and their tokenizer.

    Raises: InvalidInput where the folder lacks weights or a tokenizer, they are
    damaged, or the weights are not all those of the models and no others.
    """
    file = folder / _WEIGHTS
    try:
        tensors = load_file(str(file))
    except (OSError, ValueError, SafetensorError):
        raise InvalidInput(
            f"expected the weights of a causal LM in {file}, got none or a damaged file"
        ) from None
    sizes = read_written_json(folder / _SIZES)
    scratch = config.encoder == "scratch"
    tokenizer: Tokenizer = (
        load_bpe(folder)
        if scratch
        else Pretrained(str(folder / _TOKENIZER), is_here=True).tokenizer()
    )
    models: dict[str, nn.Module] = {}
    for stage in stages:
        owned = scratch or stage in sizes
        model: Any = (
            _of_sizes(folder, sizes, stage, synthesis)
            if owned
            else _of_base(folder, config, positions=synthesis.max_tokens)
        )
        if synthesis.lora_rank is not None:
            model.adapt(rank=synthesis.lora_rank, alpha=synthesis.lora_alpha)
        if not owned:
            _refuse_another_base(folder, model)
        own, where = part_of(tensors, stage), f"of the stage {stage} in {file}"
        try:
            model.load_state_dict(own)  # a missing one would stay random
        except RuntimeError:
            raise InvalidInput(
                f"expected the weights {where} of the model, got others"
            ) from None
        if not all(tensor.isfinite().all() for tensor in own.values()):
            raise InvalidInput(f"expected finite weights {where}, got others")
        models[stage] = model.eval()
    return models, tokenizer


def copy_base(encoder: str, source: Path, target: Path) -> str:
    """The `model.encoder` of a copy of the folder `source` in `target`: the same, or,
    of a local folder, `base`, and adapters then have a copy of its weights.

    Raises: InvalidInput where they need a folder that is gone.
    """
    if encoder == "scratch" or not hub.is_local(encoder):
        return encoder
    own, place = source / _BASE, Path(encoder).expanduser()
    if own.is_dir():
        place = own
    if (source / _BASE_FILE).is_file():
        if not place.is_dir():
            raise InvalidInput(
                f"expected the weights that the adapters in {source} belong on at"
                f" model.encoder={encoder!r}, got no such folder: restore its files"
            )
        (target / _BASE).mkdir(mode=0o700)
        for file in hub.files_of(place):
            shutil.copyfile(file, target / _BASE / file.name)
    return _BASE


def _of_sizes(
    folder: Path, sizes: Any, stage: str, synthesis: SynthesisConfig
) -> CausalLm:
    try:
        model = CausalLm(LmSizes(**sizes[stage]))
    except (
        InvalidInput,
        LookupError,
        TypeError,
        ValueError,
        RuntimeError,
        ZeroDivisionError,
    ):
        raise InvalidInput(
            f"expected the sizes of the stage {stage} in {folder / _SIZES}, got none"
            " that fit"
        ) from None
    if synthesis.max_tokens > model.sizes.positions:
        raise InvalidInput(
            f"expected synthesis.max_tokens <= {model.sizes.positions}, the positions"
            f" in {folder / _SIZES}, got {synthesis.max_tokens}"
        )
    return model


def _of_base(folder: Path, config: CausalLmConfig, *, positions: int) -> nn.Module:
    own = folder / _BASE
    encoder = str(own) if own.is_dir() else config.encoder
    try:
        return Pretrained(encoder, is_here=True).model(positions=positions)
    except InvalidInput:
        raise InvalidInput(
            f"expected the weights that the adapters in {folder} belong on in {own} or"
            f" at model.encoder={config.encoder!r}, got none that load here (the hub is"
            " not asked for a folder's weights; `hf download` keeps them)"
        ) from None


def _refuse_another_base(folder: Path, model: nn.Module) -> None:
    file = folder / _BASE_FILE
    try:
        wanted = read_written_json(file)["digest"]
    except (InvalidData, KeyError, TypeError):
        raise InvalidInput(
            f"expected the digest of the base in {file}, got none"
        ) from None
    if wanted != _digest(model):
        raise InvalidInput(
            f"expected the weights that the adapters in {folder} were trained on, got"
            " others"
        )


def _digest(model: nn.Module) -> str:
    """SHA-256 of the weights that are not trained, 64 hex digits."""
    digest = hashlib.sha256()
    for name, tensor in model.named_parameters():
        if not tensor.requires_grad:
            digest.update(f"{name} {tuple(tensor.shape)}\n".encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()
