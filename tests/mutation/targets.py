"""The mutated sources, and the tests that may detect a mutant."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_FOLDERS = ("trainables/dp", "trainables/models/user_module", "sweep/spending")
_FILES = (
    "trainables/cards/selected.py",
    "trainables/config/calibrate.py",
    "trainables/figure_cache.py",
    "trainables/generation/histogram.py",
    "trainables/models/encoders/adapters.py",
    "trainables/release_audit.py",
    "sweep/planning/accounting.py",
    "sweep/planning/ledger_check.py",
    "sweep/planning/plan_total.py",
    "sweep/planning/pricing.py",
    "sweep/planning/selection_price.py",
    "sweep/results/export.py",
    "sweep/results/export_encoder.py",
    "sweep/results/exported.py",
    "sweep/results/privacy_cards.py",
    "sweep/search/private_selection.py",
)

# No test of these folders needs Ray, a browser or minutes.
TESTS = (
    *(
        "tests/privacy",
        "tests/engines",
        "tests/accountants",
        "tests/conformance",
        "tests/layers",
    ),
    *(
        "tests/generation",
        "tests/models",
        "tests/tasks",
        "tests/optimizers",
        "tests/whole_trial",
    ),
    *("tests/data", "tests/sweep/spending", "tests/sweep/planning"),
    "tests/sweep/runtime/test_driver.py",
    *(
        "tests/sweep/runtime/test_one_budget.py",
        "tests/sweep/synthesis/test_data_card.py",
    ),
    *("tests/cards", "tests/sweep/results", "tests/test_guarantee_page.py"),
    *(
        "tests/sweep/search/test_selection_draws.py",
        "tests/attacks/test_release_audit.py",
    ),
    *("trainables/dp", "trainables/generation"),
    *("sweep/spending", "sweep/planning", "sweep/results"),
)


@dataclass(frozen=True)
class Target:
    """A mutated source: its path from the root, as written in results."""

    name: str

    @property
    def path(self):
        return ROOT / self.name

    @property
    def module(self):
        """The name it is imported by; Python only."""
        return self.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def is_c(self):
        return self.name.endswith(".c")


def targets():
    """Every mutated source, by name."""
    found = [path for folder in _FOLDERS for path in (ROOT / folder).rglob("*.[cp]*")]
    names = {
        path.relative_to(ROOT).as_posix()
        for path in found
        if path.suffix in (".py", ".c")
    }
    return [Target(name) for name in sorted({*names, *_FILES})]
