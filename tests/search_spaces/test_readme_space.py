import re
from pathlib import Path

import yaml

from search_spaces.expansion import expand
from search_spaces.space import parse

_README = Path(__file__).parents[2] / "README.md"


def test_the_space_of_the_readme_has_three_points():
    shown = re.search(r"```yaml\n(.*?)```", _README.read_text(), re.DOTALL)
    points = expand(parse({"name": "mine", **yaml.safe_load(shown[1])})).points
    assert [point.variant for point in points] == ["sgd", "dp-sgd", "dp-sgd"]
    assert all(point.config is not None for point in points), [
        point.reason for point in points
    ]
