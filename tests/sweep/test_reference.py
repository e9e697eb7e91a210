import re
import runpy
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_PAGES = _ROOT / "docs" / "reference"
pages = runpy.run_path(_ROOT / ".ci" / "reference.py")["pages"]


def test_the_pages_are_current():
    """Else: `python .ci/reference.py docs/reference`."""
    made = pages()
    assert {path.name for path in _PAGES.iterdir()} == set(made)
    for name, text in made.items():
        assert (_PAGES / name).read_text() == text, name


def test_the_summary_of_each_command_is_one_line():
    """A break of its docstring would stay in the list of `--help`."""
    for section in re.split("\n##+ ", pages()["commands.md"])[1:]:
        assert "\n" not in section.split("\n\n")[1], section
