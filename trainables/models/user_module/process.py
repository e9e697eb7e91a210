"""Processes of a user's code, each started afresh (see `worker`)."""

import io
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainables.data.records import LabelSchema
from trainables.errors import InvalidInput
from trainables.models.configs import OwnCodeConfig
from trainables.models.user_module.graph import Described

_WORKER = "trainables.models.user_module.worker"


def described(config: OwnCodeConfig, schema: LabelSchema, *, seed: int) -> Described:
    """What a process of its code says of the module; equal requests have one answer.

    Raises: InvalidInput for code that fails or that no graph can stand for.
    """
    return _described(config.model_dump_json(), schema, seed)


@lru_cache(maxsize=4)
def _described(text: str, schema: LabelSchema, seed: int) -> Described:
    config = OwnCodeConfig.model_validate_json(text)
    with _started(config, schema, seed, None) as process:
        return Described.of(_answer(process, config), factory=config.factory)


def encoded(
    config: OwnCodeConfig, schema: LabelSchema, words: Sequence[str], *, seed: int
) -> Tensor:
    """The numbers of each word, by one process.

    Raises: InvalidInput where the code fails; its message quotes no word.
    """
    with _started(config, schema, seed, list(words)) as process:
        numbers: Tensor = _answer(process, config)["numbers"]
    return numbers


def encoded_in_two_orders(
    config: OwnCodeConfig, schema: LabelSchema, words: Sequence[str], *, seed: int
) -> Tensor:
    """As `encoded`, by two processes that read the words in opposite order. Neither can
    know what the other one has seen, so a number that depends on the words before it
    differs.

    Raises: InvalidInput where it does.
    """
    there, back = list(words), list(reversed(words))
    with (
        _started(config, schema, seed, there) as one,
        _started(config, schema, seed, back) as other,
    ):
        found: Tensor = _answer(one, config)["numbers"]
        again = _answer(other, config)["numbers"].flip(0)
    if not torch.equal(found, again):
        raise InvalidInput(
            f"expected encode_word of model.factory={config.factory} to be a function"
            " of the word (a hash of fixed seed, or a public vocabulary that is"
            " complete before the first word), got numbers that depend on the order of"
            " words or on the process"
        )
    return found


@contextmanager
def _started(
    config: OwnCodeConfig, schema: LabelSchema, seed: int, words: list[str] | None
) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that has the request and works on it; it is ended at the end."""
    path = os.pathsep.join(place or str(Path.cwd()) for place in sys.path)
    process = subprocess.Popen(
        # -P: the working directory comes last, where `factory` puts it.
        [sys.executable, "-P", "-W", "ignore", "-m", _WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        assert process.stdin is not None
        try:
            pickle.dump((config, schema, seed, words), process.stdin)
            process.stdin.close()
        except BrokenPipeError:  # `_answer` says why
            process.stdin = None
        yield process
    finally:
        process.kill()
        with process:
            pass


def _answer(
    process: "subprocess.Popen[bytes]", config: OwnCodeConfig
) -> dict[str, Any]:
    assert process.stdout is not None
    size = int.from_bytes(process.stdout.read(8), "big")
    found = process.stdout.read(size)
    if not size or len(found) < size:
        raise InvalidInput(
            f"expected code of model.factory={config.factory} that runs to its end, got"
            f" a process that ended with exit code {process.wait()}"
        )
    answer: dict[str, Any] = torch.load(io.BytesIO(found), weights_only=True)
    if "refused" in answer:
        raise InvalidInput(answer["refused"])
    return answer
