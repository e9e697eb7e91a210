"""A user's module as a model of intents and slots.

Records of equal length are processed together, so there is no padding and no mask, and scores do
not depend on other records. The losses of tags are independent; decoding follows the BIO rules.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trainables.data.batches import PackedBatch
from trainables.data.records import LabelSchema
from trainables.encoders.word_vectors import bucket
from trainables.errors import InvalidInput, SweepError, TrialFailed
from trainables.layers.packing import ByLength, by_length, time_major
from trainables.layers.tape import is_plain
from trainables.models._nlu import Encoded, NluModel, label_losses
from trainables.models._own import factory as factories
from trainables.models._own.state import NotComparable, State, content_of
from trainables.models.module import Config
from trainables.seeding import stream_seed, torch_seeded


def build_module(config: Config, schema: LabelSchema, *, seed: int) -> nn.Module:
    """The factory's module, its random weights drawn from `seed`.

    Raises: InvalidInput where it fails or returns no module with trainable float32 weights.
    """
    call = factories.load(config.factory)
    with torch_seeded(stream_seed(seed, "model", "module")):
        try:
            found = call(schema, **config.options)
        except Exception as error:
            raise InvalidInput(
                f"expected model.factory={config.factory} to make a module with model.options="
                f"{sorted(config.options)}, got {factories.one_line_of(error)}"
            ) from error
    if not isinstance(found, nn.Module):
        raise InvalidInput(
            f"expected model.factory={config.factory} to return a torch.nn.Module, got"
            f" {type(found).__name__}"
        )
    return found


class OwnModel(NluModel):
    """See the module. Packed inputs: `words` [T] or [T, F]."""

    def __init__(
        self, module: nn.Module, config: Config, schema: LabelSchema, *, seed: int
    ) -> None:
        super().__init__(schema, token_width=1, seed=seed)
        self.intent_head = nn.Identity()  # type: ignore[assignment]  # the module has heads
        self.tag_head = nn.Identity()
        self.module = module
        self.factory = config.factory
        self.word_buckets = config.word_buckets
        self.provenance = (
            f"own code {config.factory} (SHA-256 {(config.source or '')[:12]}); what its weights"
            " start from is known to its author alone"
        )
        self.forbid_broken_spans(schema)
        self._is_secret = False
        self._passes = 0
        self._state: State | None = None
        self._is_watched = False

    def feature_table(self, types: Sequence[str]) -> WordTable:
        """The module's `encode_word` of each distinct word, or its hash bucket.

        Raises: InvalidInput where it fails, or a word's numbers depend on the words before it.
        """
        own = getattr(self.module, "encode_word", None)
        if own is None:
            size = self.word_buckets
            return WordTable(torch.tensor([bucket(word, size) for word in types]))
        try:
            with self.watched(deep=True):
                found = torch.tensor([own(word) for word in types])
                self._known_state().clear_caches()
                again = torch.tensor([own(word) for word in reversed(types)]).flip(0)
        except SweepError as problem:
            raise InvalidInput(str(problem)) from None
        except Exception as error:  # noqa: BLE001  the user's own code; its message may quote words
            raise InvalidInput(
                f"expected encode_word of model.factory={self.factory} to give each word one"
                f" number, or equally many, got {type(error).__name__}"
            ) from None
        if not torch.equal(found, again):
            raise InvalidInput(
                f"expected encode_word of model.factory={self.factory} to be a function of the"
                " word, got numbers that depend on the order of words"
            )
        return WordTable(found)

    @property
    def trained(self) -> list[tuple[str, nn.Parameter]]:
        """The module's weights that are trained, with their names in it."""
        return [(name, p) for name, p in self.module.named_parameters() if p.requires_grad]

    @property
    def modes(self) -> list[bool]:
        """Whether each layer of the module is in training mode."""
        return [layer.training for layer in self.module.modules()]

    @contextmanager
    def watched(self, *, deep: bool = False) -> Iterator[None]:
        """See `NluModel.watched`."""
        self._known_state().clear_caches()
        before = [(name, p, p.detach().clone()) for name, p in self.trained]
        modes, settings = self.modes, _settings()
        self._is_watched = True
        try:
            yield
        finally:
            self._is_watched = False
        changed = [
            name for name, p, old in before if not torch.equal(content_of(old), content_of(p))
        ]
        if modes != self.modes:
            changed += ["the mode of a layer (train, eval)"]
        if settings != _settings():
            changed += ["a setting of torch (default type, gradients)"]
        self._refuse_changes(*changed, deep=deep)

    def _refuse_changes(self, *others: str, deep: bool = False) -> None:
        """Raises: TrialFailed where the state, or one of `others`, has changed."""
        found = self._known_state().changed(deep=deep) or next(iter(others), None)
        if found is not None:
            raise TrialFailed(
                f"expected a module without state from model.factory={self.factory}, got {found}"
                " changed by a pass or by encode_word: it would carry records past the noise"
            )

    def load_state_dict(self, *given: Any, **fields: Any) -> Any:
        """As of any module; what is loaded is no change of a pass."""
        self._state = None
        return super().load_state_dict(*given, **fields)

    def _apply(self, *given: Any, **fields: Any) -> Any:
        self._state = None  # its tensors move to another device
        return super()._apply(*given, **fields)  # type: ignore[no-untyped-call]

    def _known_state(self) -> State:
        """The state that no pass may change, as it was before the first one.

        Raises: InvalidInput for an attribute that cannot be compared.
        """
        if self._state is None:
            try:
                self._state = State(self.module, factories.load(self.factory))
            except NotComparable as problem:
                raise InvalidInput(
                    f"expected a module from model.factory={self.factory} whose attributes can be"
                    f" compared before and after a pass, got {problem}, which may be state"
                ) from None
        return self._state

    def keep_draws_secret(self) -> None:
        """Draw dropout from a secret seed. A mask depends on a record's place in its pass, which
        other records change, so masks must be unknown for the places to be exchangeable."""
        self._is_secret = True

    def begin_step(self, *names: str | int) -> None:
        """Pin dropout to the step, unless it must be secret."""
        super().begin_step(*names)
        self._passes = 0

    def forward(self, words: Tensor, tags: Tensor, intents: Tensor) -> Tensor:
        """[n]: losses of records of equal length, as `losses` gives them."""
        of_tags, of_intents = self.module(words)
        each = label_losses(of_tags.float().transpose(1, 2), tags)
        return label_losses(of_intents.float(), intents) + each.sum(1)

    def record_groups(self, batch: PackedBatch) -> Iterator[tuple[Tensor, tuple[Tensor, ...]]]:
        """Records of equal length, the longest first (see `layers.per_record`)."""
        for places, (words, tags) in self._groups(batch, batch.inputs["words"], batch.tags):
            with self._draws():
                yield places, (words, tags, batch.intents.index_select(0, places))

    def losses(self, batch: PackedBatch) -> Tensor:
        """[B]: cross-entropy of the intent plus the sum over tokens of theirs, in nats. A label
        that the schema lacks (-1) adds nothing."""
        found, order = [], []
        for places, inputs in self.record_groups(batch):
            found.append(self(*inputs))
            order.append(places)
        return torch.cat(found).index_select(0, torch.cat(order).argsort())

    def encode(self, batch: PackedBatch) -> Encoded:
        """The scores: of tokens in time-major order, of records in the batch's order."""
        of_tags, of_intents, order = [], [], []
        layout: ByLength = by_length(batch.lengths)
        for places, (words,) in self._groups(batch, batch.inputs["words"]):
            tags, intents = self.module(words)
            of_tags.append(tags.flatten(0, 1))
            of_intents.append(intents)
            order.append(places)
        tokens = time_major(batch.lengths)
        packed = torch.cat(of_tags).float().index_select(0, layout.place)
        records = torch.cat(of_intents).float().index_select(0, torch.cat(order).argsort())
        return Encoded(packed.index_select(0, tokens.source), records, tokens)

    def _heads(self, encoded: Encoded) -> tuple[Tensor, Tensor]:
        return encoded.sentence, encoded.tokens

    def _groups(
        self, batch: PackedBatch, *columns: Tensor
    ) -> Iterator[tuple[Tensor, tuple[Tensor, ...]]]:
        """(records [n], each packed column as [n, length, ...]) by length. State is compared after
        each: what one group leaves and the next one takes away is not there at the end."""
        layout = by_length(batch.lengths)
        for first, count, length in layout.groups:
            rows = layout.source[first : first + count * length]
            found = (column.index_select(0, rows) for column in columns)
            yield (
                layout.record[first : first + count * length : length],
                tuple(each.view(count, length, *each.shape[1:]) for each in found),
            )
            if self._is_watched and not is_plain():  # a reference has put other weights in place
                self._refuse_changes()
                self._known_state().clear_caches()

    @contextmanager
    def _draws(self) -> Iterator[None]:
        """A context in which random draws depend on this step and pass."""
        if not self.training:
            yield
            return
        self._passes += 1
        seed = secrets.randbits(62)
        if not self._is_secret and self._step is not None:
            seed = stream_seed(self._step, "pass", self._passes)
        with drawn_from(seed, self):
            yield


def _settings() -> tuple[object, ...]:
    """What code may switch for all passes after it."""
    return torch.get_default_dtype(), torch.is_grad_enabled()


@contextmanager
def drawn_from(seed: int, model: nn.Module) -> Iterator[None]:
    """A context of passes of `model` whose global generators start at `seed` and are then as they
    were."""
    devices = {p.device.index for p in model.parameters() if p.is_cuda}
    of_python, of_numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(of_python)
            np.random.set_state(of_numpy)


@dataclass(frozen=True, eq=False)
class WordTable:
    """A module's inputs for each distinct word: `words` [V] or [V, F]."""

    words: Tensor

    def collate(
        self, token_ids: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any]
    ) -> dict[str, Tensor]:
        """See `data.batches.FeatureTable`."""
        return {"words": self.words[torch.from_numpy(token_ids.astype(np.int64))]}
