"""A real headless Chromium, driven through chromedriver's own protocol (W3C WebDriver, plain HTTP).

Nothing but the two Debian packages `chromium` and `chromium-driver` is needed.
"""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
MISSING = None if CHROMIUM and DRIVER else "no chromium and chromedriver on this machine"
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)


class Browser:
    """One window."""

    def __init__(self, address: str, session: str) -> None:
        self._base = f"{address}/session/{session}"

    def open(self, url: str) -> None:
        """Load a page to its end."""
        self._call("POST", "/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script's `return` gives."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait_for(self, script: str, *, seconds: float = 60.0) -> Any:
        """The first true value of an expression."""
        deadline = time.monotonic() + seconds
        while not (found := self.run(f"return ({script})")):
            assert time.monotonic() < deadline, f"waited {seconds} s for: {script}"
            time.sleep(0.2)
        return found

    def keys(self, *keys: str) -> None:
        """Press keys one after another, wherever the focus is."""
        strokes = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        actions = [{"type": "key", "id": "keyboard", "actions": strokes}]
        self._call("POST", "/actions", {"actions": actions})

    def resize(self, width: int, height: int) -> None:
        """The inside of the window, in CSS pixels, also below a desktop window's least width."""
        self._devtools(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
        )

    def media(self, **features: str) -> None:
        """Emulate a medium: `type="print"`, or features such as `prefers_color_scheme="dark"`."""
        medium = features.pop("type", "")
        named = [{"name": k.replace("_", "-"), "value": v} for k, v in features.items()]
        self._devtools("Emulation.setEmulatedMedia", {"media": medium, "features": named})

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Write what is seen, or the whole page, as PNG."""
        options = {"format": "png", "captureBeyondViewport": whole}
        if whole:
            size = self.run(
                "const e = document.documentElement; return [e.scrollWidth, e.scrollHeight]"
            )
            options["clip"] = {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}
        found = self._devtools("Page.captureScreenshot", options)
        path.write_bytes(base64.b64decode(found["data"]))

    def complaints(self) -> list[str]:
        """Errors and warnings on the console since the last call."""
        found = self._call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in found if entry["level"] in ("SEVERE", "WARNING")]

    def _devtools(self, command: str, parameters: dict[str, Any]) -> Any:
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def _call(self, method: str, path: str, body: dict[str, Any]) -> Any:
        return _send(method, f"{self._base}{path}", body)


@contextlib.contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser for the time of the block; `profile` is an empty folder of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    driver = subprocess.Popen(
        [str(DRIVER), f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _until_ready(address)
        options = {
            "binary": CHROMIUM,
            "args": [*_FLAGS, f"--user-data-dir={profile}"],
        }
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        made = _send("POST", f"{address}/session", {"capabilities": {"alwaysMatch": wanted}})
        window = Browser(address, made["sessionId"])
        try:
            yield window
        finally:
            _send("DELETE", f"{address}/session/{made['sessionId']}", None)
    finally:
        driver.terminate()
        driver.wait(20)


def _until_ready(address: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if _send("GET", f"{address}/status", None)["ready"]:
                return
        time.sleep(0.1)
    raise AssertionError("chromedriver did not come up in 60 s")


def _send(method: str, url: str, body: dict[str, Any] | None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=180) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as problem:
        raise AssertionError(problem.read().decode()[:2000]) from None
