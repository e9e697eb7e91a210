"""The frozen encoder that heads read, a model of `transformers`, and the files of
`sweep pretrain`:

    encoder.json         the card (corpora, licences, counts), the layers, the format
    model.safetensors, config.json, tokenizer files
                         a BERT as `transformers` names it, in 32, 16 or 8 bits, heads
                         left out
    moments.safetensors  mean and covariance of the layers' joined rows, of tokens and of records
    names.safetensors    how label names score tokens and records, learned on the public corpora
    learnt.npy           hashes of its pretraining texts (`encoders.about`)

A folder contains no private data; it is made from the public corpora that the card
names.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from trainables.config.trial import data_config
from trainables.data.batches import PackedBatch, batch_of_texts
from trainables.data.corpus import make_once
from trainables.dp.layers.packing import by_length
from trainables.errors import InvalidData, one_line, words_of
from trainables.models.encoders.about import MOMENTS, WEIGHTS
from trainables.models.encoders.cache import FORMAT
from trainables.models.encoders.hub import PublicEncoder
from trainables.models.encoders.pieces import PieceTable, WordCutter, pooled, windows
from trainables.models.encoders.rows import (
    BothMoments,
    LayerStates,
    moments_of,
    pack,
    unpack,
)
from trainables.system.native import user_cache

SCALE = ".scale"  # behind the name of a matrix of 8 bits: one float32 a row
_PIECES_AT_ONCE = 4_096
_MADE = ("health", "video")  # corpora
_EACH = 1_000  # made utterances of each
_AT_ONCE = 100
DAMAGED = (OSError, ValueError, KeyError, TypeError, IndexError, SafetensorError)


def load_tensors(file: Path) -> dict[str, Tensor]:
    """The tensors of a file of 32, 16 or 8 bits, floating point as float32.

    Raises: OSError, ValueError, KeyError or SafetensorError where it is missing or
    damaged.
    """
    found = load_file(file)
    for scale in [name for name in found if name.endswith(SCALE)]:
        rows = found[name := scale.removesuffix(SCALE)]
        found[name] = (rows.float().flatten(1) * found.pop(scale)[:, None]).view(
            rows.shape
        )
    return {k: t.float() if t.is_floating_point() else t for k, t in found.items()}


class HubEncoder:
    """No module: it is not trained. Weights are read at the first use; cached rows need
    none.

    Records of equal length are read together without padding, so a record's states do
    not depend on the other records. A record of more pieces than there are positions is
    read in windows.

    Raises: InvalidData for a tokenizer or moments that are damaged.
    """

    def __init__(self, public: PublicEncoder) -> None:
        self.public = public
        self.cutter = WordCutter.of_folder(public.place, name=public.name)
        moments = public.place / MOMENTS
        self._moments: BothMoments | None = None
        if public.about or moments.is_file():
            self._moments = _read_moments(moments, public.layers)

    @cached_property
    def model(self) -> Any:
        """As `load_model`."""
        return load_model(self.public)

    @property
    def provenance(self) -> str:
        """Of the features, for a card."""
        return (
            f"features of {self.public.provenance}; SHA-256 {self.public.digest()[:12]}"
        )

    @property
    def moments_of(self) -> str:
        """What its public moments are computed from, in words."""
        made = f"made corpora {' and '.join(_MADE)}"
        return "utterances of the " + (
            "encoder's corpora" if self.public.about else made
        )

    def moments(self, layers: tuple[int, ...]) -> BothMoments:
        """Public moments of `layers` at least: those in its folder, else computed once
        for a user.

        Raises: InvalidData where a file of the cache is damaged.
        """
        if self._moments is not None and set(layers) <= set(self._moments[0].layers):
            return self._moments
        name = (
            f"moments-{FORMAT}-{self.public.digest()[:24]}-{'-'.join(map(str, layers))}"
        )

        def make(new: Path) -> None:
            save_file(self._made_moments(layers), new / MOMENTS)

        try:
            folder = make_once(user_cache(), name, make)
        except (OSError, RuntimeError):  # there is no home folder that can be written
            return unpack(self._made_moments(layers), layers)
        return _read_moments(folder / MOMENTS, layers)

    def _made_moments(self, layers: tuple[int, ...]) -> dict[str, Tensor]:
        texts: set[tuple[str, ...]] = set()
        for name in _MADE:
            config = data_config(name=name, num_utterances=_EACH)
            made = config.read(Path())
            texts |= {utterance.tokens for utterance in made}
        ordered = sorted(texts, key=lambda text: (len(text), text))
        parts = (
            ordered[low : low + _AT_ONCE] for low in range(0, len(ordered), _AT_ONCE)
        )
        batches = (batch_of_texts(part, self.feature_table) for part in parts)
        return pack(moments_of(map(self.layer_states, batches), layers))

    def feature_table(self, types: Sequence[str]) -> PieceTable:
        """Pieces of the distinct tokens."""
        return self.cutter.table(types)

    @torch.no_grad()
    def layer_states(self, batch: PackedBatch) -> LayerStates:
        """The state of a token is its first piece's, that of a record the mean of its
        pieces'.
        """
        inputs = batch.inputs
        rows, owners = windows(
            inputs["pieces"], inputs["piece_lengths"].tolist(), self.public.positions
        )
        lengths = torch.tensor([len(row) for row in rows])
        layout = by_length(lengths)
        packed = torch.cat(rows).index_select(0, layout.source)
        found = []
        for first, count, length in layout.groups:
            ids = packed[first : first + count * length].view(count, length)
            for some in torch.split(ids, max(1, _PIECES_AT_ONCE // length)):
                states = self.model(
                    input_ids=some,
                    attention_mask=torch.ones_like(some),
                    output_hidden_states=True,
                ).hidden_states
                found.append(torch.stack(states).flatten(1, 2))
        # [layers + 1, pieces, D].
        whole = torch.cat(found, 1).index_select(1, layout.place)
        parts = (pooled(layer, batch, lengths, torch.tensor(owners)) for layer in whole)
        tokens, records = zip(*parts, strict=True)
        return LayerStates(tokens, records)


def _read_moments(file: Path, layers: tuple[int, ...]) -> BothMoments:
    try:
        return unpack(load_file(file), layers)
    except DAMAGED:
        raise InvalidData(
            f"expected the moments of an encoder in {file}, got none or a damaged file"
            " (delete one of the cache)"
        ) from None


def load_model(public: PublicEncoder, **changes: Any) -> Any:
    """The base model of an encoder from the files in its folder, in float32 and eval
    mode, with no weight trained; `changes` are to fields of its config, such as
    `num_hidden_layers`. No code of the folder runs and the hub is not asked.

    Raises: InvalidData where its folder lacks weights of a layer, or they cannot be
    read.
    """
    from transformers import AutoConfig, AutoModel

    place = str(public.place)
    options = {"trust_remote_code": False, "local_files_only": True, **changes}
    made = {"dtype": torch.float32, "attn_implementation": "eager"}
    try:
        with quiet(), torch.random.fork_rng(devices=[]):
            # Perhaps in 8 bits, which the library cannot read.
            if public.about is not None:
                config = AutoConfig.from_pretrained(place, **options)
                model = AutoModel.from_config(config, **made)
                own = load_tensors(public.place / WEIGHTS)
                missing, _ = model.load_state_dict(own, strict=False)
                report = {"missing_keys": missing, "mismatched_keys": ()}
            else:
                model, report = AutoModel.from_pretrained(
                    place,
                    weights_only=True,
                    output_loading_info=True,
                    **options,
                    **made,
                )
    except Exception as error:  # noqa: BLE001  the library raises many kinds for a damaged file
        said = one_line(words_of(error), characters=300)
        raise InvalidData(
            f"expected an encoder that loads in {place}, got {said}"
        ) from None
    require_all_weights(report, name=public.name)
    return model.eval().requires_grad_(False)


def require_all_weights(report: Mapping[str, Any], *, name: str) -> None:
    """Refuse a model whose folder lacks weights: the library draws the others at
    random. `report` is its loading info, `name` the model.encoder; a pooler is not
    used.

    Raises: InvalidData.
    """
    lacking = sorted(key for key in report["missing_keys"] if "pooler" not in key)
    if lacking or report["mismatched_keys"]:
        raise InvalidData(
            f"expected all weights of model.encoder={name} in its folder, got none for"
            f" {(lacking or ['some of another size'])[0]}"
        )


@contextmanager
def quiet() -> Iterator[None]:
    """A context in which `transformers` reports no unused weights and shows no progress
    bars; both are as before at its end.
    """
    from transformers.utils import logging

    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()
