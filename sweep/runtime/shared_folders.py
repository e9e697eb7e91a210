"""Whether all nodes of a cluster see the folders of a sweep."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from pathlib import Path

from trainables.errors import InvalidInput, SweepError


def require_shared(
    *, writes: Sequence[Path], reads: Sequence[Path] = (), timeout: float = 120.0
) -> None:
    """Check that every node of the cluster sees the same folders as this process. In each of
    `writes` a mark is made and looked for; of `reads`, which may be read only, the names in it are
    compared, and one that does not exist here is not needed.

    Raises: InvalidInput naming the first folder and node where it does not, or a node that has not
    answered after `timeout` seconds.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    marks = {folder: folder / f".shared-{uuid.uuid4().hex}" for folder in writes}
    listed = [(folder, _names(folder)) for folder in reads if folder.is_dir()]
    expected: list[tuple[Path, str, list[str] | None]]
    expected = [(folder, str(mark), None) for folder, mark in marks.items()]
    expected += [(folder, str(folder), names) for folder, names in listed]
    try:
        for folder, mark in marks.items():
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            mark.write_text("seen\n", encoding="utf-8")
        # By its id: several nodes may have one address.
        answers = {
            ray.remote(_sees_all)
            .options(
                num_cpus=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
            )
            .remote([(path, names) for _, path, names in expected]): f"node {node['NodeID'][:8]}"
            f" ({node['NodeManagerAddress']})"
            for node in ray.nodes()
            if node["Alive"]
        }
        _, silent = ray.wait(list(answers), num_returns=len(answers), timeout=timeout)
        if silent:
            raise InvalidInput(
                f"expected every node of the cluster to answer within {timeout:g} seconds:"
                f" {answers[silent[0]]} did not"
            )
        for answer, node in answers.items():
            try:
                found = ray.get(answer)
            except ray.exceptions.RayError as error:
                raise SweepError(f"{node} could not be queried ({type(error).__name__})") from None
            for (folder, *_), seen in zip(expected, found, strict=True):
                if not seen:
                    raise InvalidInput(
                        f"expected {folder} to be on storage that every node shares:"
                        f" {node} sees other content"
                    )
    finally:
        for mark in marks.values():
            mark.unlink(missing_ok=True)


def _sees_all(expected: list[tuple[str, list[str] | None]]) -> list[bool]:
    """Whether each path is there, with these names in it; runs on a node of the cluster."""
    return [
        os.path.exists(path) if names is None else _names(Path(path)) == names
        for path, names in expected
    ]


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
