"""Utterances from a trained model's folder, as JSON lines with a data card beside them.

Only the folder is read. Its content was released by the trial's mechanism, so drawing
from it costs no further epsilon. Filters read only the drawn text; one that compared it
with private records (such as a near-duplicate filter) would void the guarantee.
"""

import json
from collections import Counter
from pathlib import Path

from sweep.store.files import require_new_file, write_json, write_text
from sweep.synthesis.data_card import DataCard, Draws, Filters, data_card, to_markdown
from sweep.synthesis.trained_text import Trained, models_of
from trainables import catalogue
from trainables.dp.seeding import stream_seed
from trainables.errors import InvalidInput
from trainables.generation.decoding import ModelDrawer
from trainables.generation.material import GeneratedTexts, Plan
from trainables.system.communication import Alone

KNOWN_PATTERNS = {
    "email": r"\S+@\S+\.\S+",
    "url": r"(https?://|www\.)\S+",
    "digits": r"(?:\d[ .()-]*){7,}",  # telephone, card and account numbers
}
_CARDS = (".card.json", ".card.md")  # beside the utterances
_ROUNDS = 20  # rounds of drawing replacements for dropped texts


def write_utterances(
    trained: Trained, *, to: Path, number: int, filters: Filters, seed: int = 0
) -> DataCard:
    """Write `number` utterances to the new file `to`, and their card beside it; returns
    the card.

    Raises: InvalidInput where `to` exists, a model is missing, or the filters drop too
    much.
    """
    require_new_file(to)
    for suffix in _CARDS:
        require_new_file(to.with_suffix(suffix))
    kept, drawn, dropped = _passing(trained, number=number, filters=filters, seed=seed)
    draws = Draws(
        number=number,
        drawn=drawn,
        dropped=dropped,
        seed=seed,
        decoding={
            name: getattr(trained.synthesis, name)
            for name in ("num_beams", "top_k", "temperature", "max_tokens")
        },
    )
    card = data_card(trained, draws=draws, filters=filters)
    lines = [json.dumps({"utterance": text}, ensure_ascii=False) for text in kept]
    # The cards first: an interrupted command leaves no utterances without them.
    write_json(to.with_suffix(_CARDS[0]), card.to_dict())
    write_text(to.with_suffix(_CARDS[1]), to_markdown(card))
    write_text(to, "\n".join(lines) + "\n")
    return card


def _passing(
    trained: Trained, *, number: int, filters: Filters, seed: int
) -> tuple[list[str], int, dict[str, int]]:
    """`number` texts that pass the filters, how many were drawn, how many each filter
    dropped.

    Raises: InvalidInput where too few pass, or a model is missing.
    """
    models, tokenizer = models_of(trained)
    synthesis = trained.synthesis
    method = catalogue.entry("generation", synthesis.method)
    kept: list[str] = []
    dropped: Counter[str] = Counter()
    seen: set[str] = set()
    drawn = 0
    for attempt in range(_ROUNDS):
        wanted = number - len(kept)
        if wanted == 0:
            break
        plan = Plan(
            max(wanted, 8), stream_seed(seed, attempt), trained.about.frequencies
        )
        drawer = ModelDrawer(models, tokenizer, synthesis, plan.seed, Alone())
        found: GeneratedTexts = method.draw(drawer, plan)
        for text in found.utterances:
            if len(kept) == number:
                break
            drawn += 1
            reason = filters.reason(text, seen)
            if reason is not None:
                dropped[reason] += 1
                continue
            kept.append(text)
            seen.add(text)
    if len(kept) < number:
        raise InvalidInput(
            f"expected filters that let {number} utterances pass, got {len(kept)} of"
            f" {drawn}"
        )
    return kept, drawn, dict(dropped)
