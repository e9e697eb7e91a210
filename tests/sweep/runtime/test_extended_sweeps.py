"""More points for a sweep that is finished or stopped: which are trained, which are
taken over, what is charged, and what the sweep's epsilon says.
"""

import json
from contextlib import suppress
from dataclasses import replace

import dp_accounting as dp
import pytest

from sweep.planning import extension, prepare
from sweep.planning.accounting import Accounting
from sweep.planning.extension import plan_extension
from sweep.results.export import spend_of
from sweep.runtime import runner
from sweep.spending.filter import stored_filter
from sweep.store import data_sets
from sweep.store import sweeps as store
from sweep.tracking.mlflow_store import result_tags
from tests.accountants.outside import algorithm_1, divergence, gaussian_epsilon
from tests.refusals import refused
from tests.sweep.json_schemas import checked
from tests.sweep.lost_state import Killed, killed_before_epoch
from tests.sweep.sweeps import TOY, ledger_of, settings_in, shared_figures, space_in
from tests.sweep.untracked import run_untracked, without_mlflow
from trainables.errors import InvalidData

NOISE, RATE = "privacy.noise_multiplier", "training.learning_rate"
WORKERS, EPOCHS, DELTA = 2, 3, 1e-5
ONE = {"privacy": {"delta": DELTA}, "engine": "edp_sgd"}


def run(place, name, noises, **fields):
    given = {"variants": [], "base": ONE, "axes": {NOISE: noises}, **fields}
    return run_untracked(place, name=name, **given)


def planned(folder, overrides=None, *, reuse=True, space=None):
    settings = settings_in(folder.path.parents[1])
    document = space or folder.space().document()
    found = prepare.read(
        document, settings=settings, overrides=overrides or {}, name=folder.name
    )
    with shared_figures(settings):
        return plan_extension(folder, found, Accounting(settings), reuse=reuse)


def extend(folder, overrides=None, **options):
    settings = settings_in(folder.path.parents[1])
    more = planned(folder, overrides, **options)
    with shared_figures(settings), without_mlflow():
        return runner.extend(folder, more, settings, function=TOY).folder


def outside(*noises, repeated=0):
    """Epsilon of trials of these noises, and of more epochs of the first, by closed
    forms and the accounting library.
    """
    sigmas = [
        sigma
        for noise in noises
        for sigma in algorithm_1(noise, workers=WORKERS, epochs=EPOCHS)
    ]
    more = algorithm_1(noises[0], workers=WORKERS, epochs=repeated)
    return gaussian_epsilon(*sigmas, *more, delta=DELTA)


def by_noise(folder):
    return {record.plan.values[NOISE]: record for record in folder.records()}


def test_points_are_added_and_what_another_sweep_trained_is_taken_over(tmp_path):
    """Its files, epochs and figures are here, named with their origin; the data set is
    charged nothing for it, and the sweep's epsilon counts it.
    """
    first = run(tmp_path, "first", [8.0, 9.0])
    second = run(tmp_path, "second", [5.0])
    before = by_noise(second)[5.0]
    spent = ledger_of(second).entries()
    extend(second, {NOISE: [5.0, 6.0, 8.0]})
    found, origin = by_noise(second), by_noise(first)[8.0]
    assert {noise: record.status for noise, record in found.items()} == dict.fromkeys(
        (5.0, 6.0, 8.0), "done"
    )
    assert found[5.0] == before, "what was trained stays as it is"
    taken = found[8.0]
    assert taken.taken_from == first.ledger_name
    assert [found[noise].taken_from for noise in (5.0, 6.0)] == [None, None]
    assert result_tags(taken, {})["sweep.taken_from"] == "first"
    assert "sweep.taken_from" not in result_tags(found[6.0], {})
    assert (taken.metrics, taken.privacy) == (origin.metrics, origin.privacy)
    assert second.epochs(taken.plan.id) == first.epochs(taken.plan.id)
    files = ("model/weights.safetensors", "privacy_card.json", "manifest.json")
    for name in files:
        here, there = (f.trial_folder(taken.plan.id) / name for f in (second, first))
        assert here.read_bytes() == there.read_bytes()
        assert here.stat().st_mode & 0o77 == 0
    new = ledger_of(second).entries()[len(spent) :]
    assert {entry.trial for entry in new} == {found[6.0].plan.id}
    total, _ = spend_of(second)
    assert total.epsilon == pytest.approx(outside(5.0, 6.0, 8.0), rel=1e-6)
    assert "2 trials chosen after results" in total.unaccounted[0]
    (data_set,) = ledger_of(second).datasets()
    assert ledger_of(second).spend(data_set).total.epsilon == pytest.approx(
        outside(8.0, 9.0, 5.0, 6.0), rel=1e-6
    )
    alone, _ = spend_of(first)
    assert alone.epsilon == pytest.approx(outside(8.0, 9.0), rel=1e-6)
    assert alone.unaccounted == ()


def test_without_reuse_a_point_is_trained_and_charged_again(tmp_path):
    run(tmp_path, "first", [8.0])
    second = run(tmp_path, "second", [5.0])
    extend(second, {NOISE: [5.0, 8.0]}, reuse=False)
    assert by_noise(second)[8.0].taken_from is None
    (data_set,) = ledger_of(second).datasets()
    assert ledger_of(second).spend(data_set).total.epsilon == pytest.approx(
        outside(8.0, 5.0, 8.0), rel=1e-6
    )


def test_what_was_taken_over_is_taken_from_who_trained_it_and_outlives_it(tmp_path):
    """A third sweep names the first one, whose entries the ledger keeps."""
    first = run(tmp_path, "first", [8.0])
    second = run(tmp_path, "second", [5.0])
    extend(second, {NOISE: [8.0]})
    origin = first.ledger_name
    first.delete()
    third = run(tmp_path, "third", [6.0])
    extend(third, {NOISE: [8.0]})
    assert by_noise(third)[8.0].taken_from == origin
    assert spend_of(third)[0].epsilon == pytest.approx(outside(6.0, 8.0), rel=1e-6)


def test_every_attempt_at_what_is_taken_over_counts(tmp_path):
    """An epoch that was charged twice, because its process died, costs twice."""
    settings = settings_in(tmp_path)
    with killed_before_epoch(2), suppress(Killed):
        run(tmp_path, "first", [8.0])
    with without_mlflow():
        first = store.open_sweep(settings.home, "first")
        runner.resume(first, settings, function=TOY)
    second = run(tmp_path, "second", [5.0])
    extend(second, {NOISE: [8.0]})
    assert spend_of(second)[0].epsilon == pytest.approx(
        outside(8.0, 5.0, repeated=1), rel=1e-6
    )
    limited = run(tmp_path, "limited", [6.0], budget={"epsilon": 10.0})
    found = planned(limited, {NOISE: [8.0]})
    assert not found.taken, "it may cost more than budget.epsilon permits"


def test_a_total_that_was_fixed_before_admits_what_fits_into_its_filter(tmp_path):
    """Old releases, then the new ones in their order; the filter's room is that of the
    library's own conversion, and its order follows from total and delta.
    """
    folder = run(tmp_path, "grid", [6.0], budget={"total": 8.0})
    extend(folder, {NOISE: [6.0, 7.0, 4.5, 5.0, 40.0]})
    kept, found = stored_filter(folder), by_noise(folder)
    room = dp.rdp.compute_epsilon([kept.order], [kept.budget], DELTA)[0]
    assert room == pytest.approx(8.0, rel=1e-9)
    costs = {
        noise: sum(
            divergence(dp.GaussianDpEvent(sigma), order=kept.order)
            for sigma in algorithm_1(noise, workers=WORKERS, epochs=EPOCHS)
        )
        for noise in found
    }
    fits, spent = [], 0.0
    for noise in found:
        if spent + costs[noise] <= kept.budget:
            spent += costs[noise]
            fits.append(noise)
    assert [n for n, record in found.items() if record.status == "done"] == fits
    assert fits == [6.0, 7.0, 4.5, 40.0], "alone the fourth would fit, too"
    assert "no room" in found[5.0].reason
    assert {record.plan.runs for record in found.values()} == {True, False}
    total, _ = spend_of(folder)
    assert (total.epsilon, total.accountant[:10]) == (8.0, "rdp filter")
    assert total.unaccounted == (), "its bound was fixed before the first trial"


def test_a_fixed_plan_that_fills_its_total_takes_nothing_more(tmp_path):
    """Composition admits more than the filter has room for."""
    most = outside(6.0, 6.1) + 0.01
    folder = run(tmp_path, "grid", [6.0, 6.1], budget={"total": most})
    with refused("no room"):
        planned(folder, {NOISE: [400.0]})
    assert spend_of(folder)[0].epsilon == pytest.approx(outside(6.0, 6.1), rel=1e-6)


def test_a_raised_total_is_a_new_bound_that_was_chosen_after_results(tmp_path):
    folder = run(tmp_path, "grid", [6.0], budget={"total": 8.0})
    more = {NOISE: [6.0, 6.5, 3.0]}
    for smaller in (7.0, None):
        with refused(r"budget.total=8.*or more"):
            planned(folder, {**more, "budget.total": smaller})
    extend(folder, {**more, "budget.total": 30.0})
    total, _ = spend_of(folder)
    assert total.epsilon == 30.0
    assert "chosen after results: it was 8" in total.unaccounted[0]
    kept = stored_filter(folder)
    assert dp.rdp.compute_epsilon([kept.order], [kept.budget], DELTA)[0] == (
        pytest.approx(30.0, rel=1e-9)
    )


def test_a_total_that_is_newer_than_what_is_taken_over_says_so(tmp_path):
    run(tmp_path, "first", [8.0])
    second = run(tmp_path, "second", [20.0], budget={"total": 30.0})
    extend(second, {NOISE: [20.0, 8.0]})
    total, _ = spend_of(second)
    assert total.epsilon == 30.0
    assert "taken over from another sweep are older" in total.unaccounted[0]
    third = run(tmp_path, "third", [20.0], budget={"total": 2.0})
    with refused("no room"):
        planned(third, {NOISE: [20.0, 8.0]})  # taken over, it would count


def test_a_search_gets_more_configurations_under_its_filter(tmp_path):
    search = {"strategy": "tpe", "num_samples": 1}
    fields = {"search": search, "budget": {"total": 30.0}}
    folder = run(tmp_path, "search", [7.0, 8.0], **fields)
    kept = stored_filter(folder)
    extend(folder, {"search.num_samples": 2})
    assert set(by_noise(folder)) == {7.0, 8.0}
    assert stored_filter(folder) == kept
    for change, words in (
        ({"search.num_samples": 2}, "a larger search.num_samples"),
        ({"search.strategy": "gp", "search.num_samples": 3}, "search.strategy"),
        ({"repeats": 2, "search.num_samples": 3}, "repeats"),
    ):
        with refused(words):
            planned(folder, change)
    bare = run(tmp_path, "bare", [7.0, 8.0], search=search)
    with refused("began without a bound"):
        planned(bare, {"search.num_samples": 2, "budget.total": 20.0})


def test_what_an_extension_refuses(tmp_path):
    folder = run(tmp_path, "grid", [6.0])
    with refused("got 1 that it has"):
        planned(folder)
    with refused(r"privacy.delta=1e-05 as grid has.*got 1e-06"):
        planned(folder, {"privacy.delta": 1e-6, NOISE: [7.0]})
    other = tmp_path / "other"
    other.mkdir()
    mine = space_in(other, variants=[], base=ONE, name="grid").document()
    with refused("expected the corpus of grid"):
        planned(folder, {NOISE: [7.0]}, space=mine)
    with refused("is running"), folder.hold_lock():
        planned(folder, {NOISE: [7.0]})
    file = tmp_path / "mine.jsonl"
    file.write_text(file.read_text().replace("person7", "somebody"))
    data_sets.open_data.cache_clear()  # as in a process of its own
    with refused("expected the records of"):
        planned(folder, {NOISE: [7.0]})


def test_a_private_selection_is_neither_extended_nor_taken_from(tmp_path):
    """The number of its draws is secret."""
    law = {"law": "geometric", "mean": 2}
    search = {"strategy": "private_selection", "num_trials": law}
    picked = run(tmp_path, "picked", [6.0, 6.5], search=search)
    with refused("the number of its draws is secret"):
        planned(picked, {NOISE: [7.0]})
    (best,) = picked.plan().trials
    noise = best.config.privacy.noise_multiplier
    twin = run(tmp_path, "twin", [noise])
    plain = run(tmp_path, "plain", [5.0])
    assert planned(plain, {NOISE: [noise]}).taken
    ledger = ledger_of(picked)
    (entry,) = ledger.of_sweep(twin.ledger_name)
    ledger.charge(replace(entry, sweep=picked.ledger_name))  # as an unsealed trial
    twin.delete()
    found = planned(plain, {NOISE: [noise]})
    assert not found.taken
    assert [trial.id for trial in found.added] == [best.id]


def test_changed_files_of_another_sweep_are_refused(tmp_path):
    first, second = run(tmp_path, "first", [8.0]), run(tmp_path, "second", [5.0])
    place = first.trial_folder(by_noise(first)[8.0].plan.id)
    whole = (place / "privacy_card.json").read_bytes()
    (place / "privacy_card.json").write_bytes(whole.replace(b"8", b"9"))
    with refused("--no-reuse", InvalidData):
        planned(second, {NOISE: [8.0]})
    assert not planned(second, {NOISE: [8.0]}, reuse=False).taken
    third = run(tmp_path, "third", [8.0])  # whose copy is whole
    assert planned(second, {NOISE: [8.0]}).taken.popitem()[1].sweep == third.ledger_name


@pytest.mark.parametrize(
    "changes",
    [
        {"delta": 1e-6},
        {"baseline": True},
        {"dataset": "another"},
    ],
)
def test_only_what_was_charged_the_same_way_is_taken_over(
    tmp_path, monkeypatch, changes
):
    """Another delta, relation or data set is another release."""
    run(tmp_path, "first", [8.0])
    second = run(tmp_path, "second", [5.0])
    assert planned(second, {NOISE: [8.0]}).taken
    real = extension.of_trial
    monkeypatch.setattr(
        extension,
        "of_trial",
        lambda *given: [replace(entry, **changes) for entry in real(*given)],
    )
    assert not planned(second, {NOISE: [8.0]}).taken


def test_a_ledger_that_lacks_what_was_taken_over_refuses(tmp_path):
    """An older copy, of before the first sweep, beside the log of a later one."""
    run(tmp_path, "first", [8.0])
    second = run(tmp_path, "second", [5.0])
    extend(second, {NOISE: [5.0, 8.0]})
    ledger = ledger_of(second)
    kept = [e for e in ledger.entries() if e.sweep == second.ledger_name]
    store.open_sweep(second.path.parent, "first").delete()
    for name in ("ledger.jsonl", "ledger.head"):
        (second.path.parent / name).unlink()
    for entry in kept:
        ledger_of(second).charge(entry)
    with refused("restore the ledger", InvalidData):
        spend_of(second)


def test_a_crash_between_copy_and_plan_trains_nothing_twice(tmp_path, monkeypatch):
    run(tmp_path, "first", [8.0])
    second = run(tmp_path, "second", [5.0])

    def die(*given, **facts):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(store.SweepFolder, "replace_plan", die)
        with pytest.raises(Killed):
            extend(second, {NOISE: [8.0]})
    again = store.open_sweep(second.path.parent, "second")
    assert set(by_noise(again)) == {5.0}
    assert spend_of(again)[0].epsilon == pytest.approx(outside(5.0), rel=1e-6)
    extend(again, {NOISE: [8.0]})
    assert by_noise(again)[8.0].taken_from


def test_a_stopped_sweep_finishes_its_own_trials_too(tmp_path):
    with killed_before_epoch(EPOCHS + 2), suppress(Killed):
        run(tmp_path, "grid", [6.0, 7.0])
    folder = store.open_sweep(settings_in(tmp_path).home, "grid")
    extend(folder, {NOISE: [8.0]})
    assert {record.status for record in folder.records()} == {"done"}
    assert set(by_noise(folder)) == {6.0, 7.0, 8.0}


def test_the_command_extends_and_says_what_it_took_over(
    place, line, toy_trials, monkeypatch
):
    monkeypatch.setenv("SWEEP_TRACKING", "none")
    run(place, "first", [8.0])
    second = run(place, "second", [5.0])
    axis = f"axes.{NOISE}=[5, 8, 6]"
    code, shown, said = line("extend", "second", "--set", axis)
    assert code == 0, said
    assert "1 trial to train, 1 taken over; 1 point of the space is in second" in said
    assert "1 trial of first, which has trained and paid for it" in said
    assert "1 trial taken over from first" in shown
    found = json.loads(line.says("show", "second", "--json"))["trials"]
    assert [each["taken_from"] for each in found] == [None, "first", None]
    assert "got 3 that it has" in line.refused("extend", "second")
    assert "no sweep named none" in line.refused("extend", "none")
    assert second.state().about["extended"][0]["taken"] == 1
    again = json.loads(line.says("extend", "second", "--set", f"{NOISE}=[9]", "--json"))
    assert checked("run", json.dumps(again))["trials"][-1]["taken_from"] is None
