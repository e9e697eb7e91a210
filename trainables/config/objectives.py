"""The figures that rank the trials of each task, as its registry names them. Pure.

A trial of intents and slots is compared by its semantic error rate, one that generates
text by MAUVE against human text, because a loss would rank predictions instead of
generated text.
"""

from collections.abc import Mapping

from trainables import catalogue
from trainables.figures import RELEASED_VALIDATION, label


def tasks() -> tuple[str, ...]:
    """The tasks of a trial, the default task first."""
    default = default_task()
    return (default, *(task for task in catalogue.names("tasks") if task != default))


def default_task() -> str:
    """The task where a config names none."""
    return catalogue.default("tasks")


def quality(task: str) -> tuple[str, ...]:
    """Figures that trials of a task are compared by, in order of preference.

    Figures of validation records come first, because choosing by test error makes the
    test error optimistic. A trial has either that of raw figures or that of released
    ones (`privacy.covers`).

    >>> quality("nlu")
    ('validation_ser', 'validation_errors', 'ser')
    """
    known = catalogue.about("tasks", task)
    names = known.best_by, known.best_released, known.otherwise_by
    return tuple(name for name in names if name is not None)


def after_an_epoch(task: str) -> str:
    """The figure that a scheduler compares after an epoch.

    >>> after_an_epoch("synthesis")
    'validation_loss'
    """
    return str(catalogue.about("tasks", task).after_an_epoch)


def headline(task: str) -> str:
    """The figure that represents a trial in commands, tables and file names.

    >>> [headline(task) for task in tasks()]
    ['ser', 'mauve_states']
    """
    return str(catalogue.about("tasks", task).headline)


def columns(task: str) -> tuple[str, ...]:
    """The figures of a trial that a frame shows first: the headline and what belongs
    to it.

    >>> columns("nlu")[:2]
    ('ser', 'ser_low')
    """
    return headline(task), *catalogue.about("tasks", task).columns


def validation_figure(metrics: Mapping[str, float | None]) -> tuple[str, float | None]:
    """Label and value of the validation figure after an epoch.

    >>> validation_figure({"validation_ser": 0.25, "validation_loss": 1.5}), validation_figure({})
    (('SER', 0.25), ('SER', None))
    """
    names = [*map(after_an_epoch, tasks()), RELEASED_VALIDATION]
    known = [name for name in names if metrics.get(name) is not None]
    name = known[0] if known else names[0]
    return label(name).removeprefix("validation "), metrics.get(name)
