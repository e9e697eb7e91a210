"""`sweep audit-release`: test whether a synthetic data set repeats rare phrases of its
members.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sweep.commands._options import JsonFlag, lines_of
from sweep.commands._output import print_json, say, say_table
from trainables.dp.accounting.rounding import format_lower_bound
from trainables.errors import InvalidInput, TrialFailed


def audit_release(
    synthetic: Annotated[Path, lines_of("the release (utterance)")],
    members: Annotated[Path, lines_of("the records it was made from")],
    held_out: Annotated[Path, lines_of("the held-out records")],
    delta: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Delta of the bound on epsilon; default: 1e-5. With --epsilon: the"
            " claimed delta.",
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Claimed epsilon at --delta; exit code 1 if the bound is above it.",
        ),
    ] = None,
    p: Annotated[float, typer.Option(help="Error probability of the bound.")] = 0.05,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed that orders equal matches.")
    ] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Compare rare phrases of members and of held-out records with a release.

    Membership must have been random, with probability 1/2 (data.split: bernoulli).
    Output never contains text.
    """
    from sweep.synthesis.score_texts import read_texts
    from trainables.release_audit import audit_release as audit
    from trainables.release_audit import require_rates

    if epsilon is not None and delta is None:
        raise InvalidInput(
            "expected --delta with --epsilon: the claim's, for a bound at the same"
        )
    delta = 1e-5 if delta is None else delta
    require_rates(delta=delta, p=p)
    texts = [read_texts(path).utterances for path in (synthetic, members, held_out)]
    found = audit(*texts, delta=delta, p=p, seed=seed)
    if as_json:
        print_json("audit-release", asdict(found))
    else:
        say_table(
            (
                "words",
                "rare records",
                "members matched",
                "held-out matched",
                "p",
                "epsilon >=",
            ),
            (
                (
                    str(row.order),
                    f"{row.num_rare_members + row.num_rare_held_out}",
                    str(row.num_matched_members),
                    str(row.num_matched_held_out),
                    f"{row.p_value:.3g}",
                    format_lower_bound(row.epsilon_lower_bound),
                )
                for row in found.phrases
            ),
        )
        say(
            f"epsilon >= {format_lower_bound(found.epsilon_lower_bound)} at"
            f" delta={found.delta} (p={found.p}); copies of members"
            f" {found.num_copies_members}, of held-out records"
            f" {found.num_copies_held_out} in {found.num_released}"
        )
        if found.epsilon_lower_bound == 0 and found.p_value < found.p:
            say(
                "members are repeated more than held-out records"
                f" (p={found.p_value:.2g}), but delta={found.delta:g} could explain it"
                f" among {found.num_records} records: a smaller --delta may bound"
                " epsilon"
            )
    if epsilon is not None and found.epsilon_lower_bound > epsilon:
        raise TrialFailed(
            f"the release shows epsilon >="
            f" {format_lower_bound(found.epsilon_lower_bound)} at"
            f" delta={delta}, above the claim of {epsilon}"
        )
