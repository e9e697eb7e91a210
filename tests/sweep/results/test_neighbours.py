"""What leaves a home holds no exact function of private records: neighbouring corpora with equal
weights give byte-equal exports, privacy cards, public reports and data cards.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sweep.results.export import export_trial
from sweep.results.report_files import write as write_report
from sweep.store.sweeps import SweepFolder
from tests.sweep.neighbours import content, corpus, equal_weights, neighbours, nlu_home


def leaving(folder: SweepFolder, place: Path) -> dict[str, bytes]:
    """All files that may be handed on: exports, cards and the public report."""
    place.mkdir()
    found = {}
    with equal_weights():
        for number, record in enumerate(folder.records()):
            assert record.status == "done", record.reason
            export_trial(folder, record, place / f"export{number}")
            for name in ("privacy_card.json", "privacy_card.md"):
                card = folder.trial_folder(record.plan.id) / name
                found[f"{number}/{name}"] = card.read_bytes()
        write_report(folder, place / "report", epsilon_max=1e6, public=True)
    return found | content(place)


UNITS = [("record", "edp_sgd"), ("record", "dp_sgd"), ("group", "edp_sgd"), ("group", "dp_sgd")]


@pytest.mark.parametrize(("unit", "engine"), UNITS)
@pytest.mark.parametrize("which", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_neighbouring_utterances_leave_equal_bytes(
    tmp_path: Path, unit: str, engine: str, which: int
) -> None:
    relation = "replace_one" if engine == "edp_sgd" else "add_or_remove_one"
    rows = neighbours(unit, relation)[which]
    first, other = (
        leaving(nlu_home(tmp_path / name, one, unit=unit, engine=engine), tmp_path / f"{name} out")
        for name, one in (("corpus", corpus()), ("neighbour", rows))
    )
    assert any(name.endswith("weights.safetensors") for name in first)
    assert first.keys() == other.keys()
    assert [name for name in first if first[name] != other[name]] == []
