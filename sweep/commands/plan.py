"""`sweep plan`: the trials of a space with their costs, and the refused ones with
reasons.
"""

from sweep.commands._options import JsonFlag, Set, Space, overrides
from sweep.commands._output import console, print_json, say


def plan(
    space: Space,
    assignments: Set = [],  # noqa: B006  typer copies it
    as_json: JsonFlag = False,
) -> None:
    """List the trials of a space with their epsilon, and the refused ones with reasons.

    The exit code is 2 if all are refused.
    """
    from sweep.planning.accounting import Accounting
    from sweep.planning.plan import require_trials
    from sweep.planning.plan_total import total_of_plan
    from sweep.planning.prepare import prepare_space, read
    from sweep.planning.resources import sentence, share_of
    from sweep.results.tables.plan import plan_table
    from sweep.settings import from_environment

    settings = from_environment()
    found = read(space, settings=settings, overrides=overrides(assignments))
    prepared = prepare_space(found, settings=settings)
    resources = prepared.space.resources
    total, about_total = None, ""
    price = prepared.price
    if not prepared.space.search.is_adaptive and price is None:
        total, about_total = total_of_plan(prepared.plan, account=Accounting(settings))
    if as_json:
        facts = {
            **prepared.plan.to_dict(),
            "notes": list(prepared.notes),
            "together": total,
            **({} if price is None else {"selection": price.to_dict()}),
            "resources": share_of(resources, None, prepared.plan).model_dump(
                exclude={"executor"}
            ),
        }
        print_json("plan", facts)
    else:
        console().print(plan_table(prepared.plan, drawn_from=price is not None))
        say(*prepared.notes, style="yellow")
        say(*filter(None, [about_total]))
        if price is None:
            say(sentence(prepared.plan, resources))
    if price is None:
        require_trials(prepared.plan)
