"""The notebook is run as it stands, and the examples of the Python interface after it."""

import re
import subprocess
import sys

import nbformat
import pytest

from tests.notebook import NOTEBOOK, ROOT, SHOWN, environment, execute

PAGE = (ROOT / "docs" / "api.md").read_text("utf-8")
_PATH = re.compile(r"(?<![\w.])/\w[\w.-]*/[\w./-]+")


def shown(notebook):
    """By the source of a cell of code, the text that it shows."""
    return {
        cell.source: "".join(
            output.get("text") or output["data"]["text/plain"]
            for output in cell.outputs
        )
        for cell in notebook.cells
        if cell.cell_type == "code"
    }


@pytest.fixture(scope="module")
def kept():
    return nbformat.read(NOTEBOOK, as_version=4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("notebook")


@pytest.fixture(scope="module")
def ran(folder):
    return execute(folder)


def test_the_kept_outputs_are_of_one_run_and_name_no_path_of_a_machine(kept):
    cells = [cell for cell in kept.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == [*range(1, len(cells) + 1)]
    paths = [path for text in shown(kept).values() for path in _PATH.findall(text)]
    assert paths, "the export names the trial's config"
    assert {path for path in paths if not path.startswith(f"{SHOWN}/")} == set()


def test_the_notebook_calls_the_whole_way(kept):
    source = "\n".join(shown(kept))
    for name in ("plan", "run", "results", "load_model"):
        assert f"sweep.{name}(" in source, name


@pytest.mark.slow  # it trains heads
@pytest.mark.filterwarnings("ignore")  # of the kernel's client
def test_the_notebook_runs_and_shows_what_it_kept(kept, ran, folder):
    mine, before = shown(ran), shown(kept)
    assert not [text for text in mine.values() if re.search("^error", text, re.M)]
    exact = ("plan.epsilon", "frame.shape", "sweep data convert", "read_csv")
    same = [source for source in mine if any(part in source for part in exact)]
    assert len(same) == len(exact)
    for source in same:
        assert mine[source] == before[source]
    (answer,) = (text for source, text in mine.items() if source.endswith("\nanswer"))
    assert "intent='make_call'" in answer
    assert (folder / "best" / "privacy_card.md").is_file()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_examples_of_the_python_interface_run_in_its_folder(ran, folder):
    examples = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(examples) == 5
    for name in ("plan", "run", "extend", "results", "load_model"):
        assert f"\n::: sweep.{name}" in PAGE
        assert sum(f"sweep.{name}(" in example for example in examples) == 1, name
    done = subprocess.run(
        [sys.executable, "-c", "".join(examples)],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
