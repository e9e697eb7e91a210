"""One trial's attacks against each other: ROC on log-log axes, where low false positives show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

# Okabe & Ito (2008), and a line style each, so that no curve is known by its colour alone.
_STYLES = (
    ("#0072B2", "-"),
    ("#B84F00", "-"),
    ("#009E73", "-"),
    ("#7A4A86", "--"),
    ("#56B4E9", "--"),
    ("#E69F00", "--"),
    ("#595959", "-."),
    ("#000000", ":"),
)
_DOTS_PER_INCH = 160
# In parts of the figure. A layout that is worked out, minor ticks and a title that looks for its
# place took five sixths of the time, at the end of every sweep.
_MARGINS = {"left": 0.125, "right": 0.96, "bottom": 0.11, "top": 0.935}


def figure(curves: Mapping[str, Mapping[str, Sequence[float]]], *, title: str) -> Figure:
    """True-positive over false-positive rate by attack; `curves` hold `fpr` and `tpr` each.

    The control `blind`, which sees no model, is drawn in grey and last.
    """
    drawn = Figure(figsize=(5.4, 4.6), dpi=_DOTS_PER_INCH)
    drawn.subplots_adjust(**_MARGINS)
    axis = drawn.subplots()
    names = sorted(curves, key=lambda name: (name == "blind", name))
    low = min((x for name in names for x in curves[name]["fpr"] if x > 0), default=1e-3)
    for place, name in enumerate(names):
        colour, style = _STYLES[place % len(_STYLES)]
        if name == "blind":
            colour, style = "#999999", "-"
        axis.step(
            curves[name]["fpr"],
            curves[name]["tpr"],
            where="post",
            color=colour,
            linestyle=style,
            linewidth=1.2,
            label=name.replace("_", " "),
        )
    axis.plot([low, 1], [low, 1], color="#999999", linestyle=":", linewidth=1, label="chance")
    axis.set(xscale="log", yscale="log", xlim=(low, 1), ylim=(low, 1.05))
    axis.minorticks_off()
    axis.set_xlabel("false-positive rate")
    axis.set_ylabel("true-positive rate")
    axis.set_title(title, loc="left", fontsize=10, y=1.0)
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=8, loc="lower right")
    return drawn
