"""The notebook of the documentation: `python -m tests.notebook` runs it and writes its
outputs, without the paths of this machine.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
SHOWN = "/home/ann"  # in place of the folder in which the notebook ran


def environment(folder):
    """Variables of a process in `folder`, where `sweep` is this checkout's command and
    sweeps, settings and caches stay in the folder.
    """
    command = folder / "bin" / "sweep"
    command.parent.mkdir(exist_ok=True)
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m sweep "$@"\n')
    command.chmod(0o755)
    return os.environ | {
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SWEEP_HOME": str(folder / "sweeps"),
        "SWEEP_TRACKING": "none",
        "IPYTHONDIR": str(folder / "ipython"),
        # A progress bar of a library that no cell shows has no widgets.
        "PYTHONWARNINGS": "ignore:IProgress not found",
    }


def execute(folder):
    """The notebook after all its cells were run in `folder`.

    Raises: CellExecutionError for a cell that fails.
    """
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        coalesce_streams=True,
    )
    client.execute(env=environment(folder))
    return notebook


def write():
    """Run the notebook and keep what its cells show."""
    folder = Path(tempfile.mkdtemp())
    try:
        text = nbformat.writes(execute(folder))
    finally:
        shutil.rmtree(folder)
    notebook = nbformat.reads(text.replace(str(folder), SHOWN), as_version=4)
    notebook.metadata.pop("language_info", None)  # the version of this interpreter
    nbformat.write(notebook, NOTEBOOK)


if __name__ == "__main__":
    write()
