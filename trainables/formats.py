"""The formats of figures, shared by terminal, page, card and tracking store."""

import math
import shlex
from pathlib import Path

from trainables.dp.accounting.rounding import format_epsilon, format_lower_bound
from trainables.figures import registry


def figure(name: str, value: float | None) -> str:
    """A figure in the format of its registry entry; a plain number where it is not
    registered.

    >>> figure("epsilon", 3.00001), figure("ser", 0.187), figure("seconds", 125)
    ('3.001', '0.1870', '2 min 05 s')
    """
    known = registry().get(name)
    if known is None or value is None or math.isnan(value):
        return number(value)
    write = {
        "epsilon": epsilon,
        "lower_bound": lower_bound,
        "rate": share,
        "seconds": duration,
    }.get(known.written, number)
    return write(value)


def number(value: float | None, digits: int = 4) -> str:
    """A figure to some significant digits; a dash for nothing.

    >>> number(None), number(0.15066667), number(float("inf")), number(60046719.5), number(48.0)
    ('-', '0.1507', '∞', '6.005e+07', '48')
    """
    if value is None or math.isnan(value):
        return "-"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:.{digits}g}"


def count(num: int, noun: str) -> str:
    """A number of things, whose plural ends in s.

    >>> count(1, "epoch"), count(12, "epoch")
    ('1 epoch', '12 epochs')
    """
    return f"{num} {noun}{'' if num == 1 else 's'}"


def epsilon(value: float | None) -> str:
    """An epsilon, never rounded down.

    >>> epsilon(3.0001), epsilon(math.inf), epsilon(None)
    ('3.001', '∞', '-')
    """
    return format_epsilon(value).replace("inf", "∞")


def lower_bound(value: float | None) -> str:
    """A certified lower bound on an epsilon, never rounded up.

    >>> lower_bound(2.99996), lower_bound(math.inf), lower_bound(None)
    ('2.999', '∞', '-')
    """
    return format_lower_bound(value).replace("inf", "∞")


def share(value: float | None) -> str:
    """A rate as four decimals, so that a column of them lines up.

    >>> share(0.187), share(None), share(1.5)
    ('0.1870', '-', '1.5000')
    """
    return "-" if value is None or not math.isfinite(value) else f"{value:.4f}"


def interval(low: float | None, high: float | None) -> str:
    """The bounds of a rate, empty where there are none.

    >>> interval(0.484, 0.516)
    '0.484 to 0.516'
    """
    return "" if low is None or high is None else f"{low:.3f} to {high:.3f}"


def percent(change: float | None) -> str:
    """A relative change with its sign.

    >>> percent(0.5914), percent(-0.129), percent(None), percent(4.873)
    ('+59.1 %', '-12.9 %', '-', '+487 %')
    """
    if change is None or not math.isfinite(change):
        return "-"
    digits = 1 if abs(change) < 1 else 0
    return f"{100 * change:+.{digits}f} %"


def log10(value: float | None) -> str:
    """The decimal logarithm of an epsilon, rounded up, as the paper prints it.

    >>> log10(604670.96), log10(float("inf")), log10(None)
    ('5.79', '∞', '-')
    """
    if value is None or value <= 0:
        return "-"
    return (
        "∞" if math.isinf(value) else f"{math.ceil(100 * math.log10(value)) / 100:.2f}"
    )


def duration(seconds: float | None) -> str:
    """Seconds in words.

    >>> duration(None), duration(2.648), duration(42.3), duration(125), duration(7300)
    ('-', '2.6 s', '42 s', '2 min 05 s', '2 h 01 min')
    """
    if seconds is None or not math.isfinite(seconds):
        return number(seconds)
    if seconds < 60:
        return f"{seconds:.{1 if seconds < 10 else 0}f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def argument(path: Path | str) -> str:
    """A path as a word of a command that a person can paste.

    >>> argument("my own/space.yaml"), argument("-mine/space.yaml")
    ("'my own/space.yaml'", './-mine/space.yaml')
    """
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)
