"""The survey of a first pass over a file: counts and names of fields, never a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from trainables.data.tokenization import Tokenization, places
from trainables.errors import InvalidData, InvalidInput
from trainables.file_formats._record import Record, Span, SpanUnit


@dataclass
class Survey:
    """Counts of a file's records. `token_spans` and `character_spans` count the spans that are
    valid in that unit; `decided` those whose format or text fixes the unit.
    """

    num_records: int = 0
    num_problems: int = 0
    first_problem: InvalidData | None = None
    with_intent: int = 0
    with_slots: int = 0
    with_part: int = 0
    with_group: int = 0
    num_spans: int = 0
    token_spans: int = 0
    character_spans: int = 0
    decided: Counter[SpanUnit] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)

    def unit(self, declared: SpanUnit | None) -> SpanUnit | None:
        """The unit of spans: as declared, else the only one that is valid for all of them.

        Raises: InvalidInput where both or none are valid.
        """
        if declared is not None or self.num_spans == 0:
            return declared
        for unit, other in (("tokens", "characters"), ("characters", "tokens")):
            if self.decided[unit] and not self.decided[other]:  # type: ignore[index]
                return unit  # type: ignore[return-value]
        fits_tokens = self.token_spans == self.num_spans
        fits_characters = self.character_spans == self.num_spans
        if fits_tokens != fits_characters:
            return "tokens" if fits_tokens else "characters"
        said = "both readings fit" if fits_tokens else "neither reading fits"
        raise InvalidInput(
            f"expected --spans tokens or --spans characters: {said} the {self.num_spans} slots"
            f" ({self.token_spans} as tokens, {self.character_spans} as characters)"
        )


def survey(records: Iterable[Record | InvalidData], *, tokenize: Tokenization) -> Survey:
    """One pass."""
    found = Survey()
    for record in records:
        if isinstance(record, InvalidData):
            found.num_problems += 1
            found.first_problem = found.first_problem or record
            continue
        found.num_records += 1
        found.with_intent += any(intent.strip() for intent in record.intents)
        found.with_slots += record.spans is not None or record.tags is not None
        found.with_part += record.part is not None
        found.with_group += record.group is not None
        found.ignored.update(record.ignored)
        if record.spans:
            _count_spans(found, record, record.spans, tokenize)
    return found


def _count_spans(
    found: Survey, record: Record, spans: tuple[Span, ...], tokenize: Tokenization
) -> None:
    text = record.spaced_text
    words = text.split() if record.tokens is None else list(record.tokens)
    edges = places(text, tokenize="punctuation")
    starts, ends = {low for low, _ in edges}, {high for _, high in edges}
    if tokenize == "space":
        starts |= {low for low, _ in places(text)}
        ends |= {high for _, high in places(text)}
    if record.unit is not None:
        found.decided[record.unit] += len(spans)
    for _, start, end, value in spans:
        found.num_spans += 1
        found.token_spans += 0 <= start < end <= len(words)
        found.character_spans += start in starts and end in ends and start < end
        if value is None or not 0 <= start < end:
            continue
        by_characters, by_tokens = text[start:end] == value, " ".join(words[start:end]) == value
        if by_characters != by_tokens:
            found.decided["characters" if by_characters else "tokens"] += 1
