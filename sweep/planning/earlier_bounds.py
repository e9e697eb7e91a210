"""Finished trials whose guarantee earlier versions did not keep, because of one long
record.

Until trials compared each unit with itself alone (`ClippingCheck.alone`), the bound of
a unit's rounding read the number of rows of the longest unit of its batch: 2 * 6e-8 *
(rows + 16) * R / |g| of the norm, where R is the sum of the norms of a unit's rows and
|g| the norm of their sum. So a record of many words moved the part of all others,
beside its own. Below `LONG` words this is less than 1e-4 of each contribution while R /
|g| is at most 7, as for utterances; above, a trial is named. Adapters on foreign models
were moved in bfloat16 by the padding of any record.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sweep.settings import Settings
from sweep.store.data_sets import is_available, open_data, open_pair_data
from sweep.store.plans import PlannedTrial
from sweep.store.sweeps import SweepFolder
from trainables import catalogue
from trainables.config.trial import DataConfig, TrialConfig
from trainables.errors import SweepError

LONG = 100  # words


@dataclass(frozen=True, kw_only=True)
class Affected:
    """Trials of a sweep whose epsilon may be larger than their cards say, and why.

    `longest` is the number of words of their corpus' longest record, which is for the
    curator alone; None where the corpus is not at hand, or does not matter.
    """

    sweep: str
    trials: tuple[str, ...]
    reason: str
    longest: int | None = None


def affected(sweeps: Iterable[SweepFolder], settings: Settings) -> list[Affected]:
    """The affected trials of those `sweeps` that can be read, in their order, by the
    corpora under `settings`.
    """
    return [each for folder in sweeps for each in _of_sweep(folder, settings)]


def _of_sweep(folder: SweepFolder, settings: Settings) -> Iterator[Affected]:
    found: dict[tuple[str, int | None], list[str]] = {}
    try:
        state = folder.state()
        for trial in folder.plan().trials:
            result = state.trial(trial.id).result
            card = result["privacy"] if result else None
            if card is None or (card.clipping_check and card.clipping_check.alone):
                continue
            if (why := _reason(trial, settings)) is not None:
                found.setdefault(why, []).append(trial.id)
    except SweepError:
        return  # `--check` names a sweep that cannot be read
    for (reason, longest), trials in found.items():
        yield Affected(
            sweep=folder.name, trials=tuple(trials), reason=reason, longest=longest
        )


def _reason(trial: PlannedTrial, settings: Settings) -> tuple[str, int | None] | None:
    config = trial.config
    if (
        catalogue.kind_of("engines", trial.engine) != "private"
        or config.model.name == "module"
    ):
        return None
    if config.training.precision == "bf16" and _reads_padding(config):
        return "padding of foreign models moved other records in bfloat16", None
    try:
        longest = _longest(config, settings)
    except SweepError:
        longest = None
    if longest is None:
        why = f"their corpus is not at hand (a record of {LONG} words or more would matter)"
        return why, None
    if longest < LONG:
        return None
    return f"their corpus has a record of {longest} words", longest


def _reads_padding(config: TrialConfig) -> bool:
    """Whether its model is one of `transformers`."""
    encoder = getattr(config.model, "encoder", "scratch")
    is_foreign = config.model.name == "causal_lm" and encoder != "scratch"
    return config.model.name == "lora" or is_foreign


def _longest(config: TrialConfig, settings: Settings) -> int | None:
    """Words of the longest record; None where the data are not at hand."""
    data: DataConfig = config.data
    if not is_available(data, settings):
        return None
    if config.generates:
        texts = open_pair_data(data, settings)
        pairs = zip(texts.utterances, texts.programs, strict=True)
        return max((len(f"{a} {b}".split()) for a, b in pairs), default=0)
    offsets = open_data(data, settings).offsets
    return int((offsets[1:] - offsets[:-1]).max(initial=0))
