"""The training material and the drawing plan of a method, as plain data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trainables.dp.seeding import generator
from trainables.errors import InvalidInput

PARSES, UTTERANCES = "parses", "utterances"  # names of stages


@dataclass(frozen=True, repr=False)  # never the texts
class TrainingTexts:
    """Records as columns of equal length; a column that a method does not read may be
    empty.

    `programs` are Lispress texts, `prompts` the domain or the function types of each
    record.
    """

    utterances: Sequence[str]
    programs: Sequence[str] = ()
    prompts: Sequence[str] = ()


@dataclass(frozen=True, repr=False)
class StageTexts:
    """The training texts of one stage's model, one a record in the records' order, each
    after its prompt where it has one. `prompts` are None for a stage that draws from
    nothing; a single prompt may be None as well. Not shown in a `repr`, because the
    texts are private.
    """

    texts: Sequence[str]
    prompts: Sequence[str | None] | None = None


# Draws a text from the model of a stage behind each prompt, or from nothing where that
# is None.
TextSampler = Callable[[str, Sequence[str | None]], list[str]]


@dataclass(frozen=True)
class Plan:
    """What is drawn from trained models: the `number` of utterances, the `seed` of
    prompts, and the `frequencies` of the prompts, which need not sum to 1 and may be
    noised; only some methods read them. Equal plans draw equal prompts.
    """

    number: int
    seed: int
    frequencies: Mapping[str, float]

    def draw_prompts(self) -> list[str]:
        """`number` prompts, independent, by their frequencies.

        Raises: InvalidInput where no prompt has a positive frequency.
        """
        names = positive(self.frequencies)
        shares = np.array([self.frequencies[name] for name in names], dtype=np.float64)
        draw = generator(self.seed, "prompts").choice(
            len(names), size=self.number, p=shares / shares.sum()
        )
        return [names[place] for place in draw]


def positive(frequencies: Mapping[str, float]) -> list[str]:
    """The prompts that can be drawn.

    Raises: InvalidInput where there is none.
    """
    names = [name for name, share in frequencies.items() if share > 0]
    if not names:
        raise InvalidInput(
            "expected prompts with positive frequencies, got none: the noise of the"
            " histogram exceeded all counts"
        )
    return names


@dataclass(frozen=True)
class GeneratedTexts:
    """What a method has drawn: `utterances`, and the prompt of each in `prompts`, ""
    for one without; both in the order in which they were drawn. They may repeat private
    records, so they are released only under the epsilon of their models.
    """

    utterances: list[str]
    prompts: list[str]
