"""The README of an export: a model card in the format of Hugging Face's hub. Pure."""

from collections.abc import Mapping

from sweep.results.export_documents import About
from trainables.cards.card import PrivacyCard
from trainables.dp.accounting.rounding import format_delta, format_epsilon
from trainables.io.documents import format_yaml

FILE = "README.md"
EXAMPLE = "this is an example of an utterance"  # of no corpus

_PREDICTS = """    import sweep

    model = sweep.load_model({arguments})
    print(model("{example}").intent)"""


def model_card(
    card: PrivacyCard,
    about: About,
    figures: Mapping[str, float | None],
    *,
    generates: bool,
    factory: str | None = None,
) -> str:
    """The page. `figures` are the public ones, `generates` says that the model writes
    text, `factory` names its user's code. Everything else is on the privacy card and in
    `about`, so that nothing leaves that they do not state.
    """
    head = {
        "library_name": "dp-nlu-sweep",
        "pipeline_tag": "text-generation" if generates else "token-classification",
        "tags": ["differential-privacy"]
        + ([] if generates else ["intent-classification", "slot-filling"]),
    }
    what = (
        "A generator of labelled utterances"
        if generates
        else "A model of intents and slots of utterances"
    )
    lines = [
        "---",
        format_yaml(head).rstrip(),
        "---",
        "",
        f"# {about.name}",
        "",
        f"{what}, trial {about.trial} of the sweep {about.sweep}. {card.provenance}".rstrip(),
        "",
        "## Privacy",
        "",
        f"The guarantee: {guarantee_of(card)}. It covers {card.covers}.",
        "",
        card.guarantee,
        "",
    ]
    if card.sweep_total is not None:
        total = card.sweep_total
        every = f"All {total.num_releases} released trials of the sweep together"
        if total.num_releases == 1:
            every = "The only released trial of the sweep"
        lines += [
            f"{every}: epsilon {format_epsilon(total.epsilon)}"
            f" at delta {format_delta(total.delta)}.",
            "",
        ]
    lines += [f"- not covered: {each}" for each in card.not_covered]
    lines += [*(f"- {note}" for note in about.notes), ""]
    lines += [
        "[privacy_card.md](privacy_card.md) has every figure of the claim.",
        "",
        "## Use",
        "",
    ]
    if generates:
        lines += [f"    {about.predict}"]
    else:
        own = f', factory="{factory}"' if factory else ""
        lines += [_PREDICTS.format(arguments=f'"."{own}', example=EXAMPLE)]
    lines += [
        "",
        "in this folder, with dp-nlu-sweep installed from its source (it is on no package"
        f" index). `{about.repeat}` trains it again.",
        "",
        "## Figures",
        "",
        "Of the test records unless named otherwise; figures that only the curator may"
        " see are left out.",
        "",
        "| figure | value |",
        "| --- | --- |",
    ]
    lines += [
        f"| {name} | {'-' if value is None else f'{value:.5g}'} |"
        for name, value in sorted(figures.items())
    ]
    return "\n".join(lines) + "\n"


def guarantee_of(card: PrivacyCard) -> str:
    """The claim of a card in a line: epsilon, delta, neighbouring relation and unit."""
    return (
        f"epsilon {format_epsilon(card.epsilon)} at delta {format_delta(card.delta)}"
        f" ({card.neighboring_relation}) for each {card.unit}"
    )
