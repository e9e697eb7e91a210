"""The data given to Weights & Biases, and that nothing is sent without a request."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from sweep.runtime import runner
from sweep.tracking.chosen import open_trackers
from tests.sweep.sweeps import run_toy, settings_in
from tests.sweep.tracking.readers import wandb as read
from tests.sweep.untracked import run_untracked
from trainables.errors import InvalidInput

pytest.importorskip("wandb")
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """What anything of this machine asks of any server by HTTP: all go to one that listens here."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            with suppress(OSError):
                while True:
                    caller, _ = server.accept()
                    with caller:
                        heard.append(caller.recv(100))

        threading.Thread(target=listen, daemon=True).start()
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "WANDB_BASE_URL"):
            monkeypatch.setenv(name, address)
        for name in ("NO_PROXY", "no_proxy", "WANDB_MODE"):
            monkeypatch.delenv(name, raising=False)
        yield heard
        server.shutdown(socket.SHUT_RDWR)


def test_it_is_offline_and_holds_nothing_of_the_machine_or_the_data(
    calls: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(settings_in(tmp_path), tracking=("wandb",))
    monkeypatch.setattr("tests.sweep.sweeps.settings_in", lambda folder: settings)
    assert run_toy(tmp_path).tracking_problem is None
    assert calls == []
    seen = read(settings, "toy").values()
    assert {each.params["privacy.max_grad_norm"] for each in seen if "z0" in each.params} == {1.0}
    assert all(each.params["data.name"] == "json_lines" for each in seen)
    stored = b"".join(path.read_bytes() for path in (tmp_path / "home").rglob("*.wandb"))
    for text in (
        *("mine.jsonl", "num_records", "threads", "curator_only", "person1"),
        *(str(tmp_path), str(Path.cwd()), "pytest", "github"),
    ):
        assert text.encode() not in stored, text
    assert {each.host for each in seen} == {""}


def test_a_server_that_does_not_answer_costs_a_line(
    calls: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Online it is asked for, and so the listener above hears it."""
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("WANDB_API_KEY", 40 * "a")
    monkeypatch.setattr("sweep.tracking.trackers.wandb._INIT_SECONDS", 2)
    folder = run_untracked(tmp_path)
    tracker = open_trackers(replace(settings_in(tmp_path), tracking=("wandb",)))
    with pytest.raises(OSError, match="wandb: "):
        tracker.deliver(folder, [folder.plan().trials[0].id], running=False)
    tracker.close()
    assert calls


def test_a_mode_that_is_none_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "dryrun")
    settings = replace(settings_in(tmp_path), tracking=("wandb",))
    monkeypatch.setattr("tests.sweep.sweeps.settings_in", lambda folder: settings)
    monkeypatch.setattr(runner, "tracking", lambda *_, **__: pytest.fail("it was opened"))
    with pytest.raises(InvalidInput, match="WANDB_MODE to be one of offline, online, got 'dryrun'"):
        run_toy(tmp_path)
    assert not (tmp_path / "home" / "toy").exists()


def test_a_package_that_is_missing_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    from sweep.tracking.trackers import wandb

    with pytest.raises(InvalidInput, match=r"pip install 'dp-nlu-sweep\[wandb\]'"):
        wandb.check(settings_in(tmp_path))
