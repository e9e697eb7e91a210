"""The reference pages in the repository are those that the program makes."""

import re
from pathlib import Path

from sweep.reference import pages

_PAGES = Path(__file__).parents[2] / "docs" / "reference"


def test_the_pages_are_current():
    """Else: `python -m sweep.reference docs/reference`."""
    made = pages()
    assert {path.name for path in _PAGES.iterdir()} == set(made)
    for name, text in made.items():
        assert (_PAGES / name).read_text() == text, name


def test_the_summary_of_each_command_is_one_line():
    """A break of its docstring would stay in the list of `--help`."""
    for section in re.split("\n##+ ", pages()["commands.md"])[1:]:
        assert "\n" not in section.split("\n\n")[1], section
