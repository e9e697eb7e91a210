"""Export of a trial as a folder: config, weights, labels, privacy card, model card,
metrics, provenance.

Its content is an allow list, named here or as fields of a document (`export_documents`,
`PrivacyCard`), without curator-only data: no membership figures, signals, training
losses, times of steps, counts or hashes of private records, or paths on the curator's
machine.
"""

import math
import os
import shutil
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sweep.results import export_check, select
from sweep.results.export_documents import About, write_model
from sweep.results.export_origin import keep_origin
from sweep.results.local_paths import (
    fields_with_paths,
    in_text,
    in_word,
    paths_in,
    without_folders,
)
from sweep.results.model_card import FILE as README
from sweep.results.model_card import model_card
from sweep.results.privacy_cards import JSON, write_card
from sweep.results.utility_gap import refusal
from sweep.spending.filter import chosen_after_results, stored_filter, total_of
from sweep.spending.ledger import FILE, Entry, Ledger, selection_charge
from sweep.spending.paid import require_paid
from sweep.spending.taken_over import entries_of
from sweep.store import manifest
from sweep.store.files import read_json, write_json, write_text
from sweep.store.plans import PlannedTrial
from sweep.store.sweeps import SweepFolder, TrialRecord
from trainables import catalogue, formats
from trainables.cards import card as cards
from trainables.cards.card import PrivacyCard, Review
from trainables.config.mechanism import from_plain
from trainables.data.pair_split import public_part
from trainables.dp.accounting.certification import Certificate, with_risk
from trainables.dp.accounting.releases import BestOf, once
from trainables.dp.accounting.rounding import format_epsilon, risk_sentences
from trainables.errors import CannotAnalyze, InvalidData, InvalidInput, SweepError
from trainables.figures import EPSILON, EPSILON_REPLACE_ONE, LEAKAGE, RISKS, is_public
from trainables.io import disk
from trainables.io.documents import format_yaml

_MODEL, _CONFIG = "model", "config.yaml"
_PREDICT = "sweep predict .{} < utterances"
_GENERATE = "sweep synthesize . --to utterances.jsonl"


def export_trial(
    folder: SweepFolder,
    record: TrialRecord,
    target: Path,
    *,
    chosen_by: str | None = None,
    review: Review | None = None,
) -> Path:
    """Write the finished trial into the new folder `target`, whole or not at all;
    returns it.

    `chosen_by` is the metric of the choice, `review` the reviewer's decision.

    Raises: InvalidInput where `target` exists, the trial has not finished, is a
    baseline without noise beside a budget of epsilon, or lacks its privacy card or a
    whole model; InvalidData where a file differs from the trial's manifest, or the card
    does not match the trial.
    """
    if not record.status.is_finished:
        raise InvalidInput(
            f"expected a finished trial, got {record.plan.id} ({record.status})"
        )
    budget = folder.space().budget
    cost = select.value(record, EPSILON)
    if (budget.epsilon or budget.total) and record.plan.is_exempt and cost:
        raise InvalidInput(
            f"expected a trial within the budget of {folder.name}, got"
            f" {record.plan.id}, a baseline"
            " without noise, which is for the curator only"
        )
    require_new(target)
    manifest.require_whole(folder.trial_folder(record.plan.id))
    card = _card(folder, record)
    if review is not None:
        card = card.model_copy(update={"review": review})
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    try:
        write_text(fresh / _CONFIG, format_yaml(without_folders(record.plan.fields)))
        write_model(folder.trial_folder(record.plan.id) / _MODEL, fresh / _MODEL)
        write_card(fresh, card)
        write_json(fresh / export_check.FIGURES, public_metrics(record))
        keep_origin(folder, record, card, fresh / _MODEL)
        about = _about(folder, record, card, chosen_by=chosen_by)
        write_json(fresh / "about.json", about.to_dict())
        page = model_card(
            card,
            about,
            public_metrics(record),
            generates=_generates(record),
            factory=record.plan.fields["model"].get("factory"),
        )
        write_text(fresh / README, page)
        export_check.refuse_others(fresh)
        manifest.write(fresh)
        fresh.rename(target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return target


def require_new(target: Path) -> None:
    """Raises: InvalidInput where `target` exists."""
    if target.exists():
        raise InvalidInput(
            f"expected a new folder for the export, got {target}, which exists"
        )


@dataclass(frozen=True, kw_only=True)
class BestExport:
    """The export of the best trial in `place`, or why nothing was exported.

    `has_failed`: a trial qualified, and its export failed.
    """

    place: str | None = None
    sentence: str
    has_failed: bool = False


def export_best(folder: SweepFolder, epsilon_max: float | None) -> BestExport:
    """Export the best trial into `best` of the sweep's own folder."""
    records = folder.records(running=False)
    try:
        best, *others = select.choose(records, epsilon_max=epsilon_max)
        if others:
            limit = "" if epsilon_max is None else f" --epsilon-max {epsilon_max:g}"
            raise InvalidInput(
                "the trials are on several corpora"
                f" (`sweep export {folder.name}{limit}` exports the best of each)"
            )
        if epsilon_max is None and (large := refusal([best], records)) is not None:
            raise InvalidInput(large)
    except InvalidInput as problem:
        return BestExport(sentence=f"nothing is exported: {problem}")
    try:
        place = export_trial(folder, best, folder.path / "best")
    except (SweepError, OSError) as problem:
        reason = disk.failure_of(problem, folder.path) or problem
        return BestExport(sentence=f"nothing is exported: {reason}", has_failed=True)
    epsilon = format_epsilon(select.value(best, EPSILON))
    return BestExport(
        place=str(place),
        sentence=" ".join(
            (
                f"best: {place}, epsilon {epsilon} ({how_to_repeat(folder, best, place)})",
                *risk_sentences(best.metrics.get(RISKS[0])),
            )
        ),
    )


def config_to_repeat(folder: SweepFolder, record: TrialRecord, exported: Path) -> Path:
    """The config that repeats an exported trial here: its own where the export's lacks
    folders.
    """
    home = folder.trial_folder(record.plan.id)
    return (home if fields_with_paths(record.plan.fields) else exported) / _CONFIG


def how_to_repeat(folder: SweepFolder, record: TrialRecord, exported: Path) -> str:
    """The commands that repeat an exported trial here and, where its config names files
    of this machine, elsewhere.
    """
    config = config_to_repeat(folder, record, exported)
    here = f"`sweep run {formats.argument(config)}` repeats it"
    if not fields_with_paths(record.plan.fields):
        return here
    return f"{here}; elsewhere `{_repeat(record, exported / _CONFIG)}`"


def _repeat(record: TrialRecord, config: Path | str) -> str:
    """The command that repeats a trial by the config of its export, given its files."""
    fields = fields_with_paths(record.plan.fields)
    given = [f" --set {field}=PATH" for field in fields]
    return f"sweep run {formats.argument(config)}{''.join(given)}"


def _generates(record: TrialRecord) -> bool:
    """Whether the model of the trial writes text."""
    return bool(catalogue.about("tasks", record.plan.task).generation)


def public_metrics(record: TrialRecord) -> dict[str, float | None]:
    """The trial's figures without those that only the curator may see, or that reveal a
    counted number of records, and without times: how long a step took follows from the
    records in it.
    """
    return {
        name: value
        for name, value in record.metrics.items()
        if record.plan.may_publish(name) and not name.startswith("seconds_")
    }


def _card(folder: SweepFolder, record: TrialRecord) -> PrivacyCard:
    """The card that an export needs.

    Raises: InvalidInput where there is none, InvalidData where it is not the trial's
    own.
    """
    own, place = record.privacy, folder.trial_folder(record.plan.id) / JSON
    card = card_of(folder, record)
    if own is None or card is None or not place.exists():
        raise InvalidInput(
            f"expected the trial's privacy card in {place}, got none: no export"
        )
    written = cards.read(read_json(place), where=place)
    for name in PrivacyCard.model_fields:
        if getattr(written, name) != getattr(own, name):
            raise InvalidData(
                f"expected {place} to match the trial, got another {name}"
            )
    epsilon = record.metrics.get(EPSILON)
    if epsilon is not None and not math.isclose(epsilon, own.epsilon, rel_tol=1e-6):
        raise InvalidData(f"expected {place} to match the trial, got another epsilon")
    selected = None
    if own.selection is not None and own.selection.epsilon_selected is not None:
        selected = selection_charge(
            Ledger(folder.path.parent / FILE), folder.ledger_name
        )
        if selected is None:
            raise InvalidData(
                f"expected the ledger's entry of the selection that {place} claims, got"
                " none: restore the ledger from a copy"
            )
    accountant = record.plan.fields.get("privacy", {}).get("accountant")
    require_certified(own, place, accountant=accountant, selected=selected)
    return card


_LESS = 1 - 1e-5  # what sums of a million steps may differ by on another machine
_MORE = 1.01  # an older version's bound may be looser, and is a bound
_RATES_MORE = 1.04  # those of Gaussian mechanisms were from a coarser profile


def require_certified(
    card: PrivacyCard,
    place: Path,
    *,
    accountant: str | None = None,
    selected: Entry | None = None,
) -> None:
    """The last word before a model leaves, whatever was stored before: each figure of
    the claim is computed anew from the card's mechanism, by the trial's `accountant`;
    that of a private selection's best trial from what its ledger was charged
    (`selected`).

    Raises: InvalidData where a figure is not the one that was computed.
    """
    for name, known in _certified(card, accountant, selected).items():
        stated = getattr(card, name)
        if stated is None or (
            known is not None
            and known * _LESS
            <= stated
            <= known * (_RATES_MORE if name in RISKS else _MORE)
        ):
            continue
        due = "none" if known is None else f"{known:.6g}"
        raise InvalidData(
            f"expected {place} to claim {name} {due}, which its mechanism costs, got"
            f" {stated:.6g}"
        )


def _certified(
    card: PrivacyCard, accountant: str | None, selected: Entry | None
) -> dict[str, float | None]:
    """The figures of a claim by their names on a card; None: there is none."""
    if math.isinf(card.epsilon) or card.delta is None:
        return {
            **dict.fromkeys(RISKS, 1.0),
            "gaussian_mu": math.inf,
            EPSILON_REPLACE_ONE: math.inf,
            "epsilon_rdp": math.inf,
        }
    from trainables.dp.accounting.accountants import selection  # slow to import
    from trainables.dp.accounting.choose import account

    summary = account(from_plain(card.mechanism), accountant=accountant)
    found = {
        name: value
        for name, value in asdict(summary).items()
        if value is None or isinstance(value, float)
    }
    if selected is None or not isinstance(selected.release, BestOf):
        return found
    claim = selection.claim_of(selected.release, delta=selected.delta)
    return {
        **found,
        **asdict(claim.meaning),
        EPSILON: claim.epsilon,
        "epsilon_rdp": claim.epsilon,
        EPSILON_REPLACE_ONE: None,
        "epsilon_one_trial": summary.epsilon,
        "delta": selected.delta,
    }


def card_of(folder: SweepFolder, record: TrialRecord) -> PrivacyCard | None:
    """A trial's privacy card with what the whole sweep has spent; None where it has no
    card.
    """
    card = record.privacy
    if card is None:
        return None
    total, refused = spend_of(folder)
    if total is None:
        return card
    return cards.with_sweep(card, total=asdict(total), refused=refused)


def spend_of(folder: SweepFolder) -> tuple[Certificate | None, str]:
    """The composition of the sweep's releases, None if they do not compose (or there
    are none), and why its best trial has no cheaper price.

    Raises: InvalidData where the ledger or the sweep's log lacks what the other has.
    """
    ledger = Ledger(folder.path.parent / FILE)
    require_paid(folder, ledger)
    own_entries = entries_of(folder, ledger)
    # What an exempt trial gives away stands beside the total.
    exempt = {trial.id for trial in folder.plan().trials if trial.is_exempt}
    entries = [entry for entry in own_entries if entry.trial not in exempt]
    refused = "trials of a sweep are composed unless their number was drawn beforehand"
    if folder.is_unsealed:
        refused = "the sweep was unsealed, and all its trials are shown"
    if not entries:
        return None, refused
    delta = min(entry.delta for entry in entries)
    try:
        starts = once(start for entry in entries for start in entry.starts)
        releases = [*starts.values(), *(entry.release for entry in entries)]
        kept = stored_filter(folder)
        total = total_of(folder.space(), releases, delta=delta, kept=kept)
    except CannotAnalyze as problem:
        return None, str(problem)
    beside = [
        *_beside_total(folder, {entry.trial for entry in own_entries} & exempt),
        *chosen_after_results(folder.about(), is_filtered=kept is not None),
    ]
    total = with_risk(total, releases)
    # An interrupted attempt is a release, and no trial that a reader would count.
    number = len({entry.trial for entry in entries if not entry.release.is_nothing})
    return (
        replace(total, num_releases=number, unaccounted=(*total.unaccounted, *beside)),
        refused,
    )


def _beside_total(folder: SweepFolder, baselines: Collection[str]) -> list[str]:
    """What the sweep's total leaves out, in sentences."""
    found = []
    if baselines:
        found.append(
            f"{formats.count(len(baselines), 'baseline')} of the sweep, exempt from its"
            " budgets: who sees such a trial learns from it what its own epsilon"
            " allows, which without noise is anything"
        )
    parts = {_parts_of(trial) for trial in folder.plan().trials if trial.runs}
    if len({corpus for corpus, _ in parts}) < len(parts):
        public = any(fraction is not None for _, (*_, fraction) in parts)
        found.append(
            f"validation{', test and public' if public else ' and test'} records, which"
            " differ between trials of the sweep: the total is about records that no"
            f" trial is validated or tested on{' or takes as public' if public else ''}"
        )
    return found


def _parts_of(trial: PlannedTrial) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The corpus of a trial, the fields that determine its test records, and last its
    public share (None: no share).
    """
    data = trial.fields.get("data", {})
    corpus = tuple(map(data.get, ("name", "path")))
    return corpus, (data.get("split"), *public_part(trial.fields).values())


def _about(
    folder: SweepFolder,
    record: TrialRecord,
    card: PrivacyCard,
    *,
    chosen_by: str | None,
) -> About:
    about = folder.about()
    # A trial's own notes speak of its attacks and are for the curator.
    notes = [card.provenance] if card.provenance else []
    if LEAKAGE in folder.space().search.objectives:
        notes.append(
            "the search went by leakage, which is computed from private records without"
            " noise: no epsilon covers which settings were tried"
        )
    if chosen_by is not None and not is_public(chosen_by):
        notes.append(
            f"chosen by {chosen_by}, which is computed from private records without"
            " noise: the epsilon does not cover the choice"
        )
    # The command names the user's code, which is never imported without being named.
    factory = record.plan.fields["model"].get("factory")
    code = f" --factory {factory}" if factory else ""
    return About(
        sweep=folder.name,
        trial=record.plan.id,
        name=in_text(record.plan.name, paths_in(record.plan.fields)),
        chosen_by=chosen_by,
        repeat=_repeat(record, _CONFIG),
        predict=_GENERATE if _generates(record) else _PREDICT.format(code),
        command=tuple(in_word(str(word)) for word in about["command"]),
        git_commit=about["git_commit"],
        versions=about["versions"],
        epochs_done=record.epochs_done,
        notes=tuple(notes),
    )
