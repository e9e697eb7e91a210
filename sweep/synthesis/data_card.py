"""The data card of generated utterances: their epsilon, and the releases about the
private records. Its fields are an allow list, and none of them depends on the content
of a record.
"""

from __future__ import annotations

import math
import re
from dataclasses import asdict
from typing import Literal

from pydantic import model_validator

from sweep.results.privacy_cards import JSON
from sweep.store.files import read_json
from sweep.synthesis.trained_text import Trained
from trainables.cards import card as cards
from trainables.cards.card import Document
from trainables.dp.accounting import choose
from trainables.dp.accounting.privacy_semantics import meaning
from trainables.dp.accounting.rounding import format_delta, format_epsilon, percent
from trainables.errors import InvalidInput

_COUPLES = (
    "one record more or less, which would couple other records anew: for one record"
    " replaced, epsilon_replace_one holds",
)
_NOT_COVERED = (
    "the validation records: which epoch's weights are kept was chosen by their loss,"
    " and metrics on them and on the test records are released without noise",
    "a person with several records, beyond the guarantee for each single record",
    "the choice of this model among others, unless the sweep's total is taken",
    "what the starting weights had read: overlap of public text with private records",
)


class Draws(Document):
    """The drawing of the utterances; filters read nothing else."""

    number: int
    drawn: int
    dropped: dict[str, int]
    seed: int
    decoding: dict[str, int | float | None]


class Filters(Document):
    """What drops texts. `patterns` maps a name to a regular expression; texts that
    match are dropped. No filter reads a private record.

    Raises: InvalidInput for limits that nothing is between, or what is no regular
    expression.
    """

    min_words: int = 1
    max_words: int = 60
    patterns: dict[str, str]
    drop_repeats: bool = False
    read_private_records: Literal[False] = False

    @model_validator(mode="after")
    def _can_hold(self) -> Filters:
        if not 0 <= self.min_words <= self.max_words:
            raise InvalidInput(
                f"expected 0 <= min-words <= max-words, got {self.min_words} and"
                f" {self.max_words}"
            )
        for pattern in self.patterns.values():
            try:
                re.compile(pattern)
            except re.error as problem:
                raise InvalidInput(
                    f"expected a regular expression, got {pattern!r} ({problem})"
                ) from None
        return self

    def reason(self, text: str, seen: set[str]) -> str | None:
        """The reason for dropping a text; None: it is kept."""
        words = len(text.split())
        if not self.min_words <= words <= self.max_words:
            return "length"
        for name, pattern in self.patterns.items():
            if re.search(pattern, text):
                return name
        return "repeated" if self.drop_repeats and text in seen else None


class DataCard(Document):
    """See the module. Fields that would reveal a counted number of records are None.

    `max_tpr_*` is the largest true-positive rate of a membership test at 1 % and 0.1 %
    false positives that the claim allows, or, of one trial, its whole privacy profile;
    `max_advantage` is the largest difference of both rates.
    """

    epsilon: float
    delta: float | None
    neighboring_relation: str
    epsilon_replace_one: float | None
    accountant: str
    unaccounted: tuple[str, ...]
    gaussian_mu: float
    max_tpr_1pct: float
    max_tpr_01pct: float
    max_advantage: float | None = None  # cards of earlier versions have none
    unit: str
    noise_multiplier: float
    num_records: int | None
    expected_batch_size: int
    sample_rate: float | None
    steps: int | None
    histogram_noise_multiplier: float
    released: tuple[str, ...]
    method: str
    corpus: str
    provenance: tuple[str, ...]
    filters: Filters
    not_covered: tuple[str, ...]
    drawn: Draws


def data_card(trained: Trained, *, draws: Draws, filters: Filters) -> DataCard:
    """The card of utterances drawn from the models of `trained`."""
    mechanism, declared = trained.mechanism, trained.n_is_declared
    released = [f"weights of the model of {stage}" for stage in trained.about.stages]
    if mechanism.histogram_noise_multiplier:
        released.append("a histogram of the prompts, with noise")
    couple = mechanism.unit == "couple"
    own = {
        "unit": "two records whose programs were exchanged"
        if couple
        else "record (one utterance with its program)",
        "noise_multiplier": mechanism.noise_multiplier,
        "num_records": mechanism.num_records if declared else None,
        "expected_batch_size": mechanism.expected_batch_size,
        "sample_rate": mechanism.sample_rate if declared else None,
        "steps": mechanism.steps if declared else None,
        "histogram_noise_multiplier": mechanism.histogram_noise_multiplier,
        "released": tuple(released),
        "method": trained.synthesis.method,
        "corpus": trained.about.corpus,
        "provenance": trained.about.provenance,
        "filters": filters,
        "not_covered": (
            *(_COUPLES if couple else ()),
            f"the records of the share of {trained.synthesis.public_fraction:g} of the"
            " training part that was declared public: starting weights, tokenizer and"
            " parser may have read them without noise",
            *_NOT_COVERED,
        ),
        "drawn": draws,
    }
    return DataCard.model_validate(_claim(trained) | own)


def _claim(home: Trained) -> dict[str, object]:
    """What the mechanism costs, or the claim of the private selection that it is the
    best of, which the mechanism does not determine.
    """
    place = home.folder.parent / JSON
    if home.folder.name == "model" and place.is_file():
        card = cards.read(read_json(place), where=place)
        if (
            card.selection
            and card.selection.epsilon_selected is not None
            and card.delta is not None
        ):
            return card.model_dump() | asdict(meaning(card.epsilon, delta=card.delta))
    summary = choose.account(home.mechanism, accountant=home.about.accountant)
    delta = summary.delta if home.n_is_declared else None
    return asdict(summary) | {"delta": delta}


def to_markdown(card: DataCard) -> str:
    """The card as one page; every epsilon is rounded up."""
    claim = (
        "not differentially private (no finite epsilon holds)"
        if math.isinf(card.epsilon)
        else f"({format_epsilon(card.epsilon)},"
        f" {format_delta(card.delta)})-differentially private"
    )
    drawn = card.drawn
    change = (
        "replaced by another"
        if card.neighboring_relation == "replace_one"
        else "more or less"
    )
    lines = [
        "# Data card of synthetic utterances",
        "",
        f"{drawn.number} utterances by {card.method} from {card.corpus}: {claim} for"
        f" one {card.unit} {change} ({card.accountant}; {card.neighboring_relation}).",
        "",
        "- an attacker who tests whether one was trained on: TPR at most"
        f" {percent(card.max_tpr_01pct)} at 0.1 % FPR, {percent(card.max_tpr_1pct)} at"
        f" 1 % FPR; mu of the nearest Gaussian {format_epsilon(card.gaussian_mu)}",
        f"- noise multiplier {card.noise_multiplier:.5g}, B {card.expected_batch_size},"
        f" "
        + (
            "n counted on private data, for the curator alone"
            if card.num_records is None
            else f"n {card.num_records}, sample rate {card.sample_rate:.4g},"
            f" {card.steps} steps"
        ),
        f"- released: {'; '.join(card.released)}; and, drawn from them, these"
        f" utterances",
        f"- {drawn.drawn} drawn, dropped by the filters:"
        f" {', '.join(f'{name} {n}' for name, n in drawn.dropped.items()) or 'none'}",
        *(
            [
                "- epsilon for one record replaced by another:"
                f" {format_epsilon(card.epsilon_replace_one)}"
            ]
            if card.epsilon_replace_one is not None
            else []
        ),
        "- the filters looked at the drawn texts alone, never at private records",
        *(f"- no finite epsilon: {reason}" for reason in card.unaccounted),
        *(f"- {line}" for line in card.provenance),
        "",
        "Not covered:",
        "",
        *(f"- {line}" for line in card.not_covered),
    ]
    return "\n".join(lines) + "\n"
