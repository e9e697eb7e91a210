"""Work in fresh interpreters, whose memory is measured separately and whose failures end with
their process.

A child is `python -m MODULE`; it reads its task as JSON from standard input and writes its answer
as JSON to the file `answer` of the task.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from trainables.errors import TrialFailed


def run_children(
    module: str, tasks: Sequence[dict[str, Any]], *, patience: float
) -> list[dict[str, Any]]:
    """Run one process for each task concurrently and return their answers; `patience` in seconds.

    Raises: TrialFailed where one fails or takes too long; the others are then stopped.
    """
    command = [sys.executable, "-m", module]
    with tempfile.TemporaryDirectory() as folder:
        answers = [Path(folder) / f"{number}.json" for number in range(len(tasks))]
        running: list[subprocess.Popen[bytes]] = []
        try:
            for task, answer in zip(tasks, answers, strict=True):
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    process_group=0,  # Ctrl-C goes to the parent, which ends the child
                )
                running.append(process)
                assert process.stdin is not None
                process.stdin.write(json.dumps({**task, "answer": str(answer)}).encode())
                process.stdin.close()
            codes = [process.wait(timeout=patience) for process in running]
        except subprocess.TimeoutExpired:
            raise TrialFailed(f"a measuring process took longer than {patience:g} s") from None
        finally:
            for process in running:
                process.kill()
                process.wait()
        if any(codes):
            raise TrialFailed(f"a measuring process ended with exit code {max(codes, key=abs)}")
        return [json.loads(answer.read_text(encoding="utf-8")) for answer in answers]


def answer_task(do: Callable[[dict[str, Any]], Any]) -> None:
    """The main function of a child, which answers with `do(task)`."""
    task = json.load(sys.stdin)
    Path(task["answer"]).write_text(json.dumps(do(task)), encoding="utf-8")
