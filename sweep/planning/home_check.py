"""Checks every file of a home that something depends on, and brings a home of earlier
code to today's form.

Locks, `space.yaml` and `cache/figures.jsonl` are made again and decide nothing: they
are not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sweep.planning.accounting import Accounting
from sweep.planning.earlier_bounds import affected
from sweep.settings import Settings
from sweep.spending.earlier_ledgers import carry_over
from sweep.spending.exports import Exports
from sweep.spending.ledger import FILE, Ledger
from sweep.spending.paid import differences, require_draws_paid, require_vault
from sweep.store import manifest
from sweep.store import sweeps as store
from sweep.store.data_sets import is_available
from sweep.store.sweeps import SweepFolder
from trainables import formats
from trainables.errors import InvalidInput
from trainables.system import checkpoint


@dataclass(frozen=True, kw_only=True)
class Part:
    """A file or a folder of a home by its name, and what is wrong with it; empty where
    nothing is.
    """

    name: str
    problem: str = ""


def check(settings: Settings) -> Iterator[Part]:
    """Every part of a home, the ledger first, then the sweeps, oldest first."""
    account, home = Accounting(settings), settings.home
    ledger = account.ledger
    if (home / FILE).exists() or (home / "ledger.head").exists():
        yield _part("ledger.jsonl", ledger.entries)
    is_used = ledger.key.file.exists() or (home / FILE).exists()
    if is_used:
        yield _part("ledger.key", ledger.key.read)
        yield _part("ledger.records", lambda: _hashes(ledger))
    if (home / "ledger.exports.jsonl").exists():
        yield _part("ledger.exports.jsonl", lambda: Exports(home).matching(""))
    for folder in store.sweeps(home):
        yield from _of_sweep(folder, account)


def _part(name: str, look: Callable[[], object]) -> Part:
    """Whether a part can be looked at; what it returns, if text, is the problem."""
    try:
        found = look()
    except (InvalidInput, OSError) as damage:
        return Part(name=name, problem=str(damage))
    return Part(name=name, problem=found if isinstance(found, str) else "")


def _hashes(ledger: Ledger) -> None:
    ledger.require_hashes()
    for name in ledger.datasets():
        ledger.key.overlaps(name)
        ledger.key.shares(name, ())


def _of_sweep(folder: SweepFolder, account: Accounting) -> Iterator[Part]:
    log = _part(f"{folder.name}/{store.LOG}", folder.state)
    if log.problem:
        yield log
        return
    ledger = account.ledger
    yield _part(
        log.name, lambda: "; ".join(f.problem for f in differences(folder, ledger))
    )
    yield from _trials(folder, folder.name)
    if folder.space().search.is_private_selection and not folder.is_unsealed:
        yield _part(f"{folder.name}/vault", lambda: _vault(folder, ledger))
        draws = store.Vault(folder).draws
        if draws.exists and not _part("", draws.state).problem:
            yield from _trials(draws, f"{folder.name}/vault/draws")
    configs = {t.corpus: t.config for t in folder.plan().trials if t.is_config}
    for corpus, config in configs.items():
        if is_available(config.data, account.settings):
            name = f"{folder.name}: data {corpus}"
            yield _part(name, partial(account.data_of, config))


def _vault(folder: SweepFolder, ledger: Ledger) -> None:
    vault = require_vault(folder, ledger)
    if vault.is_sealed:
        require_draws_paid(vault)


def _trials(folder: SweepFolder, name: str) -> Iterator[Part]:
    """The folders of the trials that have begun."""
    state = folder.state()
    for trial in folder.plan().trials:
        known, place = state.trial(trial.id), folder.trial_folder(trial.id)
        part = f"{name}/trials/{trial.id}"
        if known.result is not None:
            yield _part(part, partial(manifest.require_whole, place))
        elif known.epochs_done:
            yield _part(f"{part}/checkpoint", partial(_checkpoint, place, folder))


def _checkpoint(place: Path, folder: SweepFolder) -> str:
    if not checkpoint.exists(place):
        return f"expected a checkpoint in {place}, got none: restore it from a copy"
    checkpoint.load(place)
    if checkpoint.owner_of(place) not in ("", folder.made().id):
        return f"expected a checkpoint of this sweep in {place}, got another's"
    return ""


def upgrade(settings: Settings) -> Iterator[str]:
    """Bring a home to today's form, while no sweep of it runs: a sentence for each
    thing that was done or that remains. A home of today is left as it is.

    Raises: InvalidInput where a sweep runs, InvalidData for a damaged ledger.
    """
    home, sweeps = settings.home, store.sweeps(settings.home)
    for folder in sweeps:
        folder.require_at_rest()
    ledgers = [home / FILE, *(store.Vault(folder).ledger_file for folder in sweeps)]
    for path in filter(Path.exists, ledgers):
        before = path.read_bytes()
        number = carry_over(path)
        done = "is in today's form" if path.read_bytes() == before else "was rewritten"
        yield f"{path.relative_to(home)} {done}: {formats.count(number, 'line')}."
    opened = 0
    for path in home.rglob("*") if home.is_dir() else ():
        if not path.is_symlink() and path.stat().st_mode & 0o077:
            path.chmod(0o700 if path.is_dir() else 0o600)
            opened += 1
    if opened:
        yield f"{formats.count(opened, 'file')} could be read by others, and no longer can."
    for each in affected(sweeps, settings):
        yield (
            f"{each.sweep}: the epsilon of {', '.join(each.trials)} may be larger than"
            f" said ({each.reason}); their figures stay as they were."
        )
    yield f"{formats.count(len(sweeps), 'sweep')} opened."
