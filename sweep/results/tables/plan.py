"""The trials of a plan as a table."""

from sweep.results.tables.axes import trial_columns
from sweep.results.tables.fitting import Column, FittedTable
from sweep.store.plans import Plan
from trainables import formats
from trainables.config.mechanism import claims_privacy


def plan_table(plan: Plan, *, drawn_from: bool = False) -> FittedTable:
    """The trials of a plan, the refused ones with their reason; `drawn_from`: the
    configurations that an unknown number of trials is drawn from.
    """
    noun, verb = ("configuration", "draw from") if drawn_from else ("trial", "run")
    what = f"{formats.count(len(plan.to_run), noun)} to {verb}"
    title = f"{plan.name}: {what}, {len(plan.refused)} refused"
    if plan.to_choose:
        title += f", {plan.to_choose} to be chosen while it runs"
    trials = plan.trials
    leading, together = trial_columns(trials, trials, worth=95)
    reasons = dict.fromkeys(trial.reason for trial in trials if trial.reason)
    numbers = {reason: str(place) for place, reason in enumerate(reasons, start=1)}
    noise = [
        formats.number(trial.noise_multiplier) if claims_privacy(trial.engine) else "-"
        for trial in trials
    ]
    columns = [
        *leading,
        Column(
            head="refused",
            cells=[numbers.get(trial.reason or "", "") for trial in trials],
        ),
        Column(head="noise", cells=noise, worth=60),
        Column(
            head="epsilon", cells=[formats.epsilon(trial.epsilon) for trial in trials]
        ),
        Column(
            head="paper",
            cells=[formats.epsilon(trial.epsilon_paper) for trial in trials],
            worth=45,
            legend="paper: epsilon by the paper's formula, no guarantee",
        ),
        Column(
            head="steps", cells=[str(trial.steps or "-") for trial in trials], worth=40
        ),
    ]
    return FittedTable(
        title=title,
        columns=columns,
        settings=together,
        notes=[f"refused ({number}): {reason}" for reason, number in numbers.items()],
        styles=["" if trial.runs else "dim" for trial in trials],
    )
