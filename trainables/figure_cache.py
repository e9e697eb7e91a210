"""A cache of privacy figures in the cache folder, with which planning a space again
needs no accounting library. It makes plans faster and decides nothing: what is charged,
trained, put on a card or exported is computed anew (`accountants.resolve`,
`accountants.account`).

A line of the file is a figure under the hash of all that it depends on: the values that
accountants read of the mechanism (`accountants.values_of`), the question, and the
versions of the accounting code. A line that is unreadable, or no figure of its kind, is
computed again.
"""

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import fields, replace
from functools import cached_property, lru_cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from trainables import catalogue
from trainables.config.calibrate import resolve
from trainables.config.mechanism import build, with_noise
from trainables.config.trial import Target, TrialConfig
from trainables.dp.accounting import values
from trainables.dp.accounting.summary import PrivacySummary
from trainables.dp.mechanism import Mechanism
from trainables.io.documents import digest_of
from trainables.io.files import make_folder

_FILE = "figures.jsonl"
_MOST_BYTES = 20_000_000  # beyond it the file is started anew
_LIBRARIES = ("dp-accounting", "numpy", "scipy")
T = TypeVar("T")


def _possible(figures: T) -> T:
    values = [value for value in vars(figures).values() if isinstance(value, float)]
    if not all(value >= 0 for value in values):
        raise ValueError(f"expected figures >= 0, got {values}")
    return figures


def kind_of(document: type[T]) -> TypeAdapter[T]:
    """The form of a document of figures, each at least 0, as `FigureCache.recall` takes
    it.
    """
    form: Any = Annotated[document, AfterValidator(_possible)]
    return TypeAdapter(form)


_SUMMARY = kind_of(PrivacySummary)
_NOISE: TypeAdapter[float] = TypeAdapter(
    Annotated[float, Field(gt=0, allow_inf_nan=False)]
)


class FigureCache:
    """The figures kept in a folder, which is created at the first write."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE

    def resolve(
        self, config: TrialConfig, *, num_records: int, undeclared: tuple[str, ...] = ()
    ) -> tuple[TrialConfig, Mechanism]:
        """`accountants.resolve` for a plan, with one search for each target.

        Raises: InvalidInput where the mechanism is refused or no noise reaches the
        target.
        """
        target = config.privacy.noise_multiplier
        if not isinstance(target, Target):
            made = build(config, num_records=num_records, undeclared=undeclared)
            return config, self._with_held_out_noise(made)
        unit = build(
            with_noise(config, 1.0), num_records=num_records, undeclared=undeclared
        )
        key = key_of(
            unit, noise_for=target.model_dump(), accountant=config.privacy.accountant
        )

        def search() -> float:
            _, mechanism = resolve(
                config, num_records=num_records, undeclared=undeclared, certified=False
            )
            return mechanism.noise_multiplier

        z = self.recall(key, _NOISE, search)
        made = replace(unit, noise_multiplier=z)
        return with_noise(config, z), self._with_held_out_noise(made)

    def _with_held_out_noise(self, mechanism: Mechanism) -> Mechanism:
        if not mechanism.split:
            return mechanism
        # A plan without such trials must not load scipy.
        from trainables.dp.accounting.calibration import held_out_noise

        noise = self.recall(
            key_of(mechanism, noise_for="held-out records"),
            _NOISE,
            lambda: held_out_noise(mechanism),
        )
        return replace(mechanism, held_out_noise=noise)

    def summary(
        self, key: str, work_out: Callable[[], PrivacySummary]
    ) -> PrivacySummary:
        """The summary under a key, computed and kept where it is missing."""
        return self.recall(key, _SUMMARY, work_out)

    def recall(self, key: str, kind: TypeAdapter[T], work_out: Callable[[], T]) -> T:
        """What is kept under a key, if it is of this kind; else it is computed and
        kept.
        """
        try:
            return kind.validate_python(self.find(key))
        except ValidationError:
            made = work_out()
            self.keep(key, kind.dump_python(made))
            return made

    def find(self, key: str) -> Any:
        """The plain data kept under a key; None without any."""
        return self._entries.get(key)

    def keep(self, key: str, value: Any) -> None:
        """Add plain data. Nothing is kept in a read-only folder."""
        self._entries[key] = value
        line = json.dumps({"key": key, "value": value}) + "\n"
        with contextlib.suppress(OSError):
            make_folder(self._path.parent)
            mode = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            if self._path.exists() and self._path.stat().st_size > _MOST_BYTES:
                mode |= os.O_TRUNC
            descriptor = os.open(self._path, mode, 0o600)
            with os.fdopen(descriptor, "ab", buffering=0) as file:
                file.write(
                    line.encode()
                )  # in one write, because processes may write concurrently

    @cached_property
    def _entries(self) -> dict[str, Any]:
        known: dict[str, Any] = {}
        try:
            lines = self._path.read_text(
                encoding="utf-8", errors="replace"
            ).splitlines()
        except OSError:
            return known
        for line in lines:
            try:
                row = json.loads(line)
                known[row["key"]] = row["value"]
            except (ValueError, TypeError, KeyError, RecursionError):
                continue  # truncated by a crash: computed again
        return known


def key_of(
    *mechanisms: Mechanism, accountant: str | None = None, **question: Any
) -> str:
    """The hash of what accountants read of the mechanisms, of the question (an
    `accountant` by its name, or the tightest, and what else is `question`, plain data)
    and of what answers it.
    """
    document = {
        "values": [values.values_of(mechanism) for mechanism in mechanisms],
        "question": question,
        "accountant": accountant,
        "entry": _text_of(accountant),
        "fields": [field.name for field in fields(PrivacySummary)],
        "libraries": _versions(),
    }
    return digest_of(document)


@lru_cache(maxsize=8)
def _text_of(accountant: str | None) -> str:
    """The source text of a named entry, which `VERSION` does not cover if a user added
    it.
    """
    if accountant not in catalogue.names("accountants"):
        return ""
    package = catalogue.package_of("accountants").__name__
    found = find_spec(f"{package}.{accountant}")  # which imports no entry
    return Path(str(found and found.origin)).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _versions() -> list[str]:
    return [f"{library} {metadata.version(library)}" for library in _LIBRARIES]
