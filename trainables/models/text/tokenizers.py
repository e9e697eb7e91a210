"""Byte-level BPE (Sennrich et al. 2016), trained on public text, and those of
pretrained models.

Text is cut at spaces alone, so that a frequent call like `(Event.start` is one id and
programs have about as many ids as words.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from trainables.errors import InvalidInput
from trainables.io.files import make_folder

_BEGIN, _SEPARATOR, _END = "<begin>", "<separator>", "<end>"
_FILE = "tokenizer.json"


def _spaced(text: str) -> str:
    return " " + " ".join(text.split())


class _Marked:
    """A tokenizer whose marks are three of its ids."""

    _inner: Any
    begin: int
    separator: int
    end: int

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, marks left out."""
        return str(self._inner.decode(self._without_marks(ids))).strip()

    def _without_marks(self, ids: Sequence[int]) -> list[int]:
        return [int(i) for i in ids if i not in (self.begin, self.separator, self.end)]


class PublicBpe(_Marked):
    """A byte-level BPE, which can encode any text without unknown ids."""

    def __init__(self, tokenizer: Any) -> None:
        self._inner = tokenizer
        tokenizer.encode_special_tokens = True  # the name of a mark in a text is text
        self.size: int = tokenizer.get_vocab_size()
        self.begin, self.separator, self.end = (
            tokenizer.token_to_id(mark) for mark in (_BEGIN, _SEPARATOR, _END)
        )

    def encode(self, text: str) -> list[int]:
        """Ids of a text; the names of the marks are cut like any other text."""
        return list(self._inner.encode(_spaced(text), add_special_tokens=False).ids)

    def to_json(self) -> str:
        """The format of the tokenizers library."""
        return str(self._inner.to_str())

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json`."""
        (folder / _FILE).write_text(self.to_json(), encoding="utf-8")


def train_bpe(texts: Iterable[str], *, size: int) -> PublicBpe:
    """A BPE of at most `size` ids, at least 300: 256 bytes, the marks, some merges. The
    texts must be public, because its merges reveal them.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(" ", "merged_with_next"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[_BEGIN, _SEPARATOR, _END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(map(_spaced, texts), trainer)
    return PublicBpe(inner)


def load_bpe(folder: Path) -> PublicBpe:
    """The tokenizer that `PublicBpe.save` wrote.

    Raises: InvalidInput where the folder has none.
    """
    from tokenizers import Tokenizer

    file = folder / _FILE
    if not file.is_file():
        raise InvalidInput(f"expected a tokenizer ({_FILE}) in {folder}, got none")
    try:
        return PublicBpe(Tokenizer.from_file(str(file)))
    except Exception:  # noqa: BLE001  the library raises a bare Exception for a damaged file
        raise InvalidInput(
            f"expected a tokenizer in {file}, got a damaged file"
        ) from None


class PretrainedTokenizer(_Marked):
    """A tokenizer of `transformers`; the separator is its line feed, which no utterance
    holds.
    """

    def __init__(self, inner: Any) -> None:
        end = inner.eos_token_id
        line_feed = inner.encode("\n", add_special_tokens=False)
        if end is None or not line_feed or line_feed[-1] == inner.unk_token_id:
            raise InvalidInput(
                "expected a tokenizer with an end token and an id for the line feed,"
                " got none"
            )
        self._inner = inner
        self.size = 1 + max(inner.get_vocab().values())  # ids may have gaps
        self.end = int(end)
        self.begin = int(inner.bos_token_id if inner.bos_token_id is not None else end)
        self.separator = int(line_feed[-1])

    def encode(self, text: str) -> list[int]:
        """Ids of a text, as after a space; the names of the marks are cut like any
        other text.
        """
        options = {"add_special_tokens": False, "split_special_tokens": True}
        return self._without_marks(self._inner.encode(_spaced(text), **options))

    def save(self, folder: Path) -> None:
        """Write the files from which `transformers` reads a tokenizer."""
        make_folder(folder)
        self._inner.save_pretrained(str(folder))
