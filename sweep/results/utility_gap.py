"""The gap between the best private trial and the baselines, and advice to reduce it.
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
_EMPTY = 1.0  # SER of the empty prediction
_AT_RANDOM = "random_words"  # of the public texts, which no private record has shaped


@dataclass(frozen=True, kw_only=True)
class Gap:
    """The best trial with epsilon at most `limit` (chosen by `select`) beside the
    baselines on its data, by the test figure `figure`: the nearest, and the first of
    another model. `best` None: there is no such trial, and `least` is the smallest
    epsilon of all. `nothing` is the figure of a model that learned nothing: the best of
    the empty prediction's, of models without a step and, of generated text, of random
    words; None where there is none.
    """

    limit: float
    figure: str
    best: TrialRecord | None
    least: TrialRecord
    baselines: tuple[Group, ...] = ()
    nothing: float | None = None
    corpus: str | None = None  # where the sweep has several

    @property
    def factor(self) -> float | None:
        """The error relative to the nearest baseline's (`_factor`)."""
        return self._factor(self.baselines[0]) if self.baselines else None

    @property
    def is_far(self) -> bool:
        """Whether the gap is large enough for advice."""
        is_large = self.factor is not None and self.factor > FAR
        return self.best is None or is_large or not self.is_useful

    @property
    def is_beside_same_model(self) -> bool:
        """Whether the nearest baseline has the model of the best trial, and no
        privacy.
        """
        if self.best is None or not self.baselines:
            return False
        base = self.baselines[0].records[0]
        is_open = math.isinf(epsilon_of(base))
        return is_open and select.model_of(base) == select.model_of(self.best)

    @property
    def is_useful(self) -> bool:
        """Whether the best trial beats a model that learned nothing."""
        return self.best is not None and self._beats_nothing(
            select.value(self.best, self.figure)
        )

    def sentences(self) -> list[str]:
        """The answer with the trial's leakage, advice, and before it whatever makes the
        comparison void.
        """
        answer = self.answer()
        leaks = None if self.best is None else strongest(self.best.metrics)
        if leaks is not None:
            share = formats.share(leaks.value)
            attack = f"; strongest attack's AUC {share} (curator only)"
            answer = (*answer[:-1], answer[-1] + attack)
        helps = [f"what would help: {words}" for words in self.helps()]
        if self.best is not None and not self.is_useful:
            return [*self.warnings(), answer[0], *helps, answer[1]]
        return [*self.warnings(), ": ".join(answer), *helps]

    def warnings(self) -> list[str]:
        """A sentence for the nearest baseline where it has learned nothing."""
        if not self.baselines:
            return []
        base, mean = self.baselines[0].records[0], self._mean(self.baselines[0])
        if self._beats_nothing(mean):
            return []
        return [
            f"the baseline {base.plan.name} learned nothing"
            f" ({figures.label(self.figure)} {formats.figure(self.figure, mean)}), so no"
            " comparison with it counts: train it longer or with another learning rate"
        ]

    def answer(self) -> tuple[str, ...]:
        """Which trial to use, and its error beside the baselines'; or that there is
        none.
        """
        limit = formats.number(self.limit)
        where = "" if self.corpus is None else f" on {self.corpus}"
        if self.best is None:
            plan, epsilon = self.least.plan, formats.epsilon(epsilon_of(self.least))
            return (
                f"no finished trial{where} has epsilon ≤ {limit}; the smallest epsilon"
                f" is {epsilon} ({plan.id} {plan.name})",
            )
        plan, epsilon = self.best.plan, formats.epsilon(epsilon_of(self.best))
        error = "".join([self._error(self.best), *self._beside_baselines()])
        trial = f"{plan.name} ({plan.id}, epsilon {epsilon})"
        if self.is_useful:
            return f"at epsilon ≤ {limit}{where} use {trial}", error
        nothing = formats.figure(self.figure, self.nothing)
        return (
            f"no private model{where} is useful yet",
            f"the best at epsilon ≤ {limit} is {trial} with {error}; a model that"
            f" learned nothing has {figures.label(self.figure)} {nothing}",
        )

    def headline(self) -> tuple[str, ...]:
        """The answer in a few words, and what stands below it: the interval, and the
        error beside each baseline's.
        """
        if self.best is None:
            return tuple(self.answer()[0].split("; ", 1))
        if not self.is_useful:
            return self.answer()
        limit = formats.number(self.limit)
        where = "" if self.corpus is None else f" on {self.corpus}"
        error, between = self._measured(self.best)
        ends = [f"95 % interval {between}"] if between else []
        beside = (words.lstrip(",; ") for words in self._beside_baselines())
        name = self.best.plan.name
        return f"at ε ≤ {limit}{where} use {name}: {error}", *ends, *beside

    def _error(self, record: TrialRecord) -> str:
        """The test figure of a trial in words, with its 95 % interval."""
        error, between = self._measured(record)
        return f"{error} ({between})" if between else error

    def _measured(self, record: TrialRecord) -> tuple[str, str]:
        """The test figure of a trial in words, and its 95 % interval, empty where it
        was not computed.
        """
        found = select.value(record, self.figure)
        if self.figure != "ser" or found is None:
            shown = formats.figure(self.figure, found)
            return f"{figures.label(self.figure)} {shown}", ""
        between = select.interval_of(record)
        bounds = (
            ""
            if between is None
            else "{:.1f} to {:.1f}".format(*(100 * x for x in between))
        )
        return f"{100 * found:.1f} errors in 100", bounds

    def _beside_baselines(self) -> list[str]:
        if not self.baselines:
            return ["; no finished baseline to compare it with"]
        said = []
        for group in self.baselines:
            factor, words = self._factor(group), self._words(group.records[0])
            if not factor or math.isinf(factor):
                mean = formats.figure(self.figure, self._mean(group))
                said.append(f"; {mean} is that of {words}")
                continue
            is_gain = cost(self.figure, 1.0) < 0
            times = formats.number(1 / factor if is_gain else factor, 2)
            said.append(f", {times} times {words}")
        return said

    def _words(self, base: TrialRecord) -> str:
        """What a baseline is, relative to the best trial."""
        assert self.best is not None
        if math.isfinite(epsilon_of(base)):
            return base.plan.name
        if select.model_of(base) == select.model_of(self.best):
            return f"the same model without privacy ({base.plan.name})"
        model = base.plan.fields["model"]
        start = model.get("encoder", "scratch")
        how = "trained from scratch" if start == "scratch" else "of another kind"
        return f"a {str(model['name']).upper()} {how} ({base.plan.name})"

    def _factor(self, base: Group) -> float | None:
        """The best trial's error over the baseline's mean, or the inverse ratio for a
        figure where higher is better; infinite over a baseline without an error. None
        where neither makes an error.
        """
        mean = self._mean(base)
        figure = None if self.best is None else select.value(self.best, self.figure)
        if mean is None or figure is None:
            return None
        over, under = (figure, mean) if cost(self.figure, 1.0) > 0 else (mean, figure)
        if max(over, under) <= 0:
            return None
        return over / under if under > 0 else math.inf

    def _mean(self, base: Group) -> float | None:
        spread = base.spread(self.figure)
        return None if spread is None else spread.mean

    def _beats_nothing(self, found: float | None) -> bool:
        if found is None or self.nothing is None:
            return True
        return cost(self.figure, found) < cost(self.figure, self.nothing)

    def helps(self) -> list[str]:
        """Advice for reducing the gap, from the trials of this sweep."""
        if not self.is_far:
            return []
        if self.best is None:
            return [f"noise for an epsilon: `{_TARGET}` calibrates the noise"]
        model = self.best.plan.fields.get("model", {})
        if model.get("encoder", "scratch") == "scratch":
            return [
                f"public pretraining: {self.best.plan.id} learns all its weights from"
                " private records; with `model.encoder: dialogues`, or `model.name:"
                " features`, it would start from public ones, which costs no epsilon"
            ]
        if self.is_useful:
            return []
        return [
            "more training records, or a larger epsilon: the noise hides what these"
            " records teach"
        ]


def gap(records: Sequence[TrialRecord], *, limit: float = ANSWER) -> Gap | None:
    """The gap between the best trial with epsilon at most `limit` and the baselines, on
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
    untrained = [
        found
        for record in select.priors(records)
        if record.plan.fields.get("data") == best.plan.fields.get("data")
        and (found := select.value(record, main)) is not None
    ]
    nearest = select.baselines_on(best, select.baselines(records))
    others = [
        group
        for group in nearest[1:]
        if select.model_of(group.records[0]) != select.model_of(nearest[0].records[0])
    ]
    at_random = best.metrics.get(f"{main}_{_AT_RANDOM}")
    nothing = [
        *untrained,
        *([_EMPTY] if main == "ser" else []),
        *([] if at_random is None else [at_random]),
    ]
    return Gap(
        limit=limit,
        figure=main,
        best=best,
        baselines=(*nearest[:1], *others[:1]),
        nothing=min(nothing, key=lambda each: cost(main, each), default=None),
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
    """The gap on each corpus in sentences, the answer or what makes it void first."""
    return [text for each in gaps(records, limit=limit) for text in each.sentences()]


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
