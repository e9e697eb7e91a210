"""The gap between the best private trial and the baseline, and advice to reduce it.
Pure.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from sweep.results import select
from sweep.results.select import Group, epsilon_of
from sweep.store.sweeps import TrialRecord
from trainables import figures, formats
from trainables.attacks import strongest
from trainables.errors import InvalidInput
from trainables.figures import cost

ANSWER = 8.0  # the largest epsilon of the trial that is recommended first
# the largest epsilon that is exported by default: a larger one guarantees little
USABLE = 10.0
FAR = 2.0  # factor of the baseline's error from which advice is given
_TARGET = "privacy.noise_multiplier: {target_epsilon: 8}"


@dataclass(frozen=True, kw_only=True)
class Gap:
    """The best trial with epsilon at most `limit` (chosen by `select`) beside the
    baseline, by the test figure `figure`. `best` None: there is no such trial, and
    `least` is the smallest epsilon of all. `factor` is its error relative to the
    baseline's, or the inverse ratio for a figure where higher is better; infinite over
    a baseline without an error. None without a baseline, or where neither makes an
    error.
    """

    limit: float
    figure: str
    best: TrialRecord | None
    least: TrialRecord
    baseline: Group | None = None
    factor: float | None = None
    corpus: str | None = None  # where the sweep has several

    @property
    def is_far(self) -> bool:
        """Whether the gap is large enough for advice."""
        return self.best is None or (self.factor is not None and self.factor > FAR)

    def sentence(self) -> str:
        """The answer, and the trial's leakage."""
        leaks = None if self.best is None else strongest(self.best.metrics)
        text = ": ".join(self.answer())
        if leaks is None:
            return text
        return f"{text}; strongest attack's AUC {formats.share(leaks.value)} (curator only)"

    def answer(self) -> tuple[str, ...]:
        """Which trial to use, and its error beside the baseline's; or that there is
        none.
        """
        limit = formats.number(self.limit)
        where = "" if self.corpus is None else f" on {self.corpus}"
        if self.best is None:
            plan, epsilon = self.least.plan, formats.epsilon(epsilon_of(self.least))
            return (
                f"no finished trial{where} has epsilon ≤ {limit}; the smallest epsilon"
                f" is"
                f" {epsilon} ({plan.id} {plan.name})",
            )
        plan, epsilon = self.best.plan, formats.epsilon(epsilon_of(self.best))
        use = f"at epsilon ≤ {limit}{where} use {plan.name} ({plan.id}, epsilon {epsilon})"
        return use, f"{self._error(self.best)}{self._beside_baseline(self.best)}"

    def _error(self, record: TrialRecord) -> str:
        """The test figure of a trial in words, with its 95 % interval."""
        found = select.value(record, self.figure)
        if self.figure != "ser" or found is None:
            return f"{figures.label(self.figure)} {formats.figure(self.figure, found)}"
        between = select.interval_of(record)
        bounds = (
            ""
            if between is None
            else " ({:.1f} to {:.1f})".format(*(100 * x for x in between))
        )
        return f"{100 * found:.1f} errors in 100{bounds}"

    def _beside_baseline(self, record: TrialRecord) -> str:
        if self.baseline is None:
            return "; no finished baseline to compare it with"
        base = self.baseline.records[0]
        is_kin = select.model_of(record) == select.model_of(base)
        name = base.plan.name + ("" if is_kin else ", another model")
        if not self.factor or math.isinf(self.factor):
            spread = self.baseline.spread(self.figure)
            mean = formats.figure(self.figure, None if spread is None else spread.mean)
            return f"; the baseline's is {mean} ({name})"
        is_gain = cost(self.figure, 1.0) < 0
        factor = formats.number(1 / self.factor if is_gain else self.factor, 3)
        return f", {factor} times {'that' if is_gain else 'those'} of {name}"

    def helps(self) -> list[str]:
        """Advice for reducing the gap, from the trials of this sweep."""
        if not self.is_far:
            return []
        if self.best is None:
            return [f"noise for an epsilon: `{_TARGET}` calibrates the noise"]
        if (
            self.best.plan.fields.get("model", {}).get("encoder", "scratch")
            != "scratch"
        ):
            return []
        return [
            f"public pretraining: {self.best.plan.id} learns all its weights from"
            f" private records;"
            " with `model.encoder: dialogues`, or `model.name: features`, it would"
            " start from"
            " public ones, which costs no epsilon"
        ]


def gap(records: Sequence[TrialRecord], *, limit: float = ANSWER) -> Gap | None:
    """The gap between the best trial with epsilon at most `limit` and the baseline, on
    one corpus; None without a finished trial that is no baseline.

    Raises: InvalidInput where these trials have no figure in common.
    """
    finished = select.finished(records)
    if not finished:
        return None
    main = select.headline(finished)
    least = min(finished, key=epsilon_of)
    if epsilon_of(least) > limit:
        return Gap(limit=limit, figure=main, best=None, least=least)
    best = select.choose_one(finished, epsilon_max=limit)
    baseline = select.nearest_baseline(best, select.baselines(records))
    spread = None if baseline is None else baseline.spread(main)
    figure, factor = select.value(best, main), None
    if spread is not None and figure is not None:
        over, under = (
            (figure, spread.mean) if cost(main, 1.0) > 0 else (spread.mean, figure)
        )
        if max(over, under) > 0:
            factor = over / under if under > 0 else math.inf
    return Gap(
        limit=limit,
        figure=main,
        best=best,
        baseline=baseline,
        factor=factor,
        least=least,
    )


def gaps(records: Sequence[TrialRecord], *, limit: float = ANSWER) -> list[Gap]:
    """The gap on each corpus; without those whose trials have no figure in common."""
    found, parts = [], select.by_corpus(records)
    for name, alike in parts.items():
        with suppress(InvalidInput):
            if (of_corpus := gap(alike, limit=limit)) is not None:
                found.append(
                    replace(of_corpus, corpus=name if len(parts) > 1 else None)
                )
    return found


def sentences(records: Sequence[TrialRecord], *, limit: float = ANSWER) -> list[str]:
    """The gap on each corpus in a sentence, and advice where it is large."""
    return [
        sentence
        for each in gaps(records, limit=limit)
        for sentence in (
            each.sentence(),
            *(f"what would help: {words}" for words in each.helps()),
        )
    ]


def refusal(
    chosen: Sequence[TrialRecord], records: Sequence[TrialRecord]
) -> str | None:
    """Why trials are not exported without a limit on epsilon; None where all are
    small.
    """
    over = [record for record in chosen if epsilon_of(record) > USABLE]
    if not over:
        return None
    finished = select.finished(records)
    worst, least = max(over, key=epsilon_of), min(finished, key=epsilon_of)
    return (
        "expected --epsilon-max, or --any-epsilon for an epsilon above"
        f" {formats.number(USABLE)}, which guarantees little: got"
        f" {formats.epsilon(epsilon_of(worst))} of {worst.plan.id}, {worst.plan.name};"
        f" the smallest epsilon here is {formats.epsilon(epsilon_of(least))}"
    )
