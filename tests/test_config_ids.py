"""The identity of a config is kept: 40 of them, pinned by what a user wrote.

A trial is found again by its config's id: in a sweep that is resumed, in the ledger, in
MLflow. A new field must be left out of the id at its default, and a renamed class must
not change it. `python -m tests.test_config_ids` writes the file anew, which is right
only where a meaning changed.
"""

import json
from pathlib import Path

import pytest

from search_spaces import space as spaces
from search_spaces.expansion import expand

PINNED = Path(__file__).with_name("config_ids.json")
SPACES = (
    *("atis_grid", "epsilon_8", "leakage", "leakage_heads", "microbatch_frontier"),
    *("paper_exponential", "paper_models", "paper_none", "quick", "search"),
    *(
        "synthesis_clip_batch",
        "synthesis_epsilon",
        "synthesis_prompts",
        "synthesis_split",
    ),
)


def ids_of(space):
    """Ids of the first, middle and last point of a shipped space, by space and
    number.
    """
    points = [
        point.config for point in expand(spaces.read(space)).points if point.config
    ]
    chosen = sorted({0, len(points) // 2, len(points) - 1})
    return {f"{space}/{number}": points[number].id for number in chosen}


def test_forty_are_pinned():
    assert len(json.loads(PINNED.read_text())) >= 40


@pytest.mark.parametrize("space", SPACES)
def test_the_id_of_a_config_is_kept(space):
    pinned = json.loads(PINNED.read_text())
    assert ids_of(space) == {
        key: pinned[key] for key in pinned if key.startswith(f"{space}/")
    }


if __name__ == "__main__":
    found = {key: value for space in SPACES for key, value in ids_of(space).items()}
    PINNED.write_text(json.dumps(found, indent=1) + "\n")
