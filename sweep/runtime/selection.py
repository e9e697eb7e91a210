"""Runs a private selection. Its trials are drawn beforehand and charged as a whole. They run in the
vault, and only the fact that they run is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sweep.planning.accounting import accounting
from sweep.planning.plan import plan_point
from sweep.planning.prepare import Prepared
from sweep.planning.pricing import price as priced_trials
from sweep.planning.selection_price import SelectionPrice
from sweep.results.selected_trial import release_best
from sweep.results.tables.progress import Progress
from sweep.runtime.driver import Driver, Watch, progress_of, run_pending
from sweep.runtime.events import RunSettings
from sweep.search import private_selection as search
from sweep.settings import Settings
from sweep.spending.gate import open_gate
from sweep.spending.home_key import HomeKey
from sweep.spending.ledger import FILE, Ledger, selection_charge, selection_entry
from sweep.store.data_sets import TrainingData, training_data
from sweep.store.plans import Plan, PlannedTrial
from sweep.store.state import TrialStatus
from sweep.store.sweeps import SweepFolder, Vault
from trainables.accountants import release
from trainables.errors import InvalidInput, TrialFailed
from trainables.figure_cache import FigureCache
from trainables.figures import EPSILON

_NAME = "the best of a secret number of trials"


def is_charged(folder: SweepFolder, settings: Settings) -> bool:
    """Whether the ledger has the selection."""
    ledger = Ledger(settings.home / FILE)
    return selection_charge(ledger, folder.ledger_name) is not None


def execute(
    folder: SweepFolder,
    prepared: Prepared,
    settings: Settings,
    executed: RunSettings,
    *,
    watch: Watch,
    stop_requested: Callable[[], bool],
) -> None:
    """Draw from the plan where that has not been done, charge the selection, run what was drawn
    and release the best.

    Raises: InvalidInput where the data set's total does not permit the selection; TrialFailed where
    a trial failed, and then nothing is released.
    """
    vault, trials, price = Vault(folder), prepared.plan.to_run, prepared.price
    assert price is not None
    ledger = Ledger(settings.home / FILE)
    if copies := [copy.name for copy in folder.copies()]:
        raise InvalidInput(
            f"expected one folder of the private selection {folder.name}, got a copy,"
            f" {copies[0]}: the best of either would be a release of its own"
        )
    if not vault.is_sealed:
        _draw(folder, vault, trials, price, settings)
    _charge(folder, ledger, training_data(trials[0].config, settings), price)
    draws = vault.draws
    running = Progress(
        name=_NAME,
        status=TrialStatus.RUNNING,
        epochs_done=0,
        epochs=executed.max_epochs,
        epsilon=price.epsilon_selected,
    )
    priced = priced_trials(draws.plan().trials, settings, ledger=ledger)
    with draws.hold_lock():
        driver = Driver(
            open_gate(draws, priced, ledger=Ledger(vault.ledger_file)),
            draws,
            # In the vault, because figures of drawn trials say which were drawn.
            figures=FigureCache(vault.path / "cache"),
            # The progress shown is always the same: that trials run.
            watch=lambda *_: watch("sealed", running),
        )
        run_pending(draws, executed, driver, stop_requested=stop_requested)
    records = draws.records(running=False)
    if not all(record.status.is_finished for record in records):
        # The best of the others is not the priced release. Why it failed is an outcome of a trial
        # that is not released.
        raise TrialFailed(
            "a draw failed, so nothing is released; its reason is in the vault, for the curator"
            f" alone: `sweep resume {folder.name}` runs it again"
        )
    release_best(folder, vault, search.best_of(records), price.to_dict())
    for record in folder.records(running=False):
        shown = replace(progress_of(record), name=_NAME, plan=None)
        watch("sealed", replace(shown, epsilon=record.metrics.get(EPSILON)))


def _draw(
    folder: SweepFolder,
    vault: Vault,
    trials: Sequence[PlannedTrial],
    price: SelectionPrice,
    settings: Settings,
) -> None:
    """Draw trials by the home's key and the sweep's id, and write them to the vault.

    Raises: InvalidInput for one whose release is not covered by the price.
    """
    space, account = folder.space(), accounting(settings)
    secret = HomeKey((settings.home / FILE).with_suffix(".key")).read()
    random = search.random_of(secret, str(folder.about()["id"]))
    number = search.draw_number(search.law_of(space), random)
    drawn = []
    points = search.draw_points(space, trials, number, random)
    names = [f"draw-{random.bytes(4).hex()}" for _ in points]  # from which no number follows
    for name, point in zip(names, points, strict=True):
        trial = plan_point(space, point, account=account)
        if not trial.runs or release(account(trial.config).mechanism) not in price.configurations:
            raise InvalidInput(
                "expected the same epsilon for every point of the space with strategy"
                " private_selection: a value inside a range changes it"
            )
        # The same configuration may be drawn twice, and is then two trials.
        drawn.append(replace(trial, id=f"{name}-{trial.id}"))
    vault.seal(space, Plan(name=space.name, trials=tuple(drawn)))


def _charge(folder: SweepFolder, ledger: Ledger, data: TrainingData, price: SelectionPrice) -> None:
    """Charge the selection once, before anything starts.

    Raises: InvalidInput where the data set's total over all sweeps does not permit it.
    """
    name, limit = folder.ledger_name, folder.about().get("budget_total")
    if selection_charge(ledger, name) is not None:
        return
    ledger.register(data.fingerprint, data.texts())
    entry = selection_entry(price.release, delta=price.delta, data=data, sweep=name)
    if (reason := ledger.charge(entry, budget_total=limit)) is not None:
        raise InvalidInput(reason)
