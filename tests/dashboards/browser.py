"""A real headless Chromium (Debian's package `chromium`), driven through CDP over two
pipes.
"""

import contextlib
import json
import os
import shutil
import subprocess
import time

CHROMIUM = shutil.which("chromium")
MISSING = None if CHROMIUM else "no chromium on this machine"
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
    "--remote-debugging-pipe",
)
_CODES = {"Tab": 9, "Escape": 27, "ArrowRight": 39}


class Browser:
    """One window."""

    def __init__(self, to, back):
        self._to, self._back, self._rest, self._number = to, back, b"", 0
        self._session = ""
        self._events = []
        made = self.call("Target.createTarget", url="about:blank")
        opened = self.call(
            "Target.attachToTarget", targetId=made["targetId"], flatten=True
        )
        self._session = opened["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def open(self, url):
        """Load a page to its end."""
        self._events.clear()
        self.call("Page.navigate", url=url)
        while not any(
            event["method"] == "Page.loadEventFired" for event in self._events
        ):
            self._events.append(self._read())

    def run(self, script, *arguments):
        """What a script's `return` gives."""
        code = f"(function() {{ {script} }}).apply(null, {json.dumps(arguments)})"
        found = self.call(
            "Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait_for(self, script):
        """The first true value of an expression."""
        deadline = time.monotonic() + 60
        while not (found := self.run(f"return ({script})")):
            assert time.monotonic() < deadline, f"waited 60 s for: {script}"
            time.sleep(0.2)
        return found

    def keys(self, *keys):
        """Press keys one after another, wherever the focus is."""
        for key in keys:
            named = {"key": key, "code": key, "windowsVirtualKeyCode": _CODES[key]}
            for kind in ("rawKeyDown", "keyUp"):
                self.call("Input.dispatchKeyEvent", type=kind, **named)

    def resize(self, width, height):
        """The inside of the window, in CSS pixels, also below a desktop window's least
        width.
        """
        facts = {
            "width": width,
            "height": height,
            "deviceScaleFactor": 1,
            "mobile": width < 500,
        }
        self.call("Emulation.setDeviceMetricsOverride", **facts)

    def media(self, **features):
        """Emulate a medium: `type="print"`, or features such as
        `prefers_color_scheme="dark"`.
        """
        medium = features.pop("type", "")
        named = [{"name": k.replace("_", "-"), "value": v} for k, v in features.items()]
        self.call("Emulation.setEmulatedMedia", media=medium, features=named)

    def complaints(self):
        """Errors and warnings since the page was opened."""
        self.run("return 0")
        found = [
            event["params"]["entry"]
            for event in self._events
            if event["method"] == "Log.entryAdded"
        ]
        said = [
            str(entry["text"])
            for entry in found
            if entry["level"] in ("error", "warning")
        ]
        return said + [
            str(event["params"])
            for event in self._events
            if event["method"]
            in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled")
        ]

    def call(self, method, **parameters):
        """The answer to a command."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": parameters}
        asked |= {"sessionId": self._session} if self._session else {}
        content = json.dumps(asked).encode() + b"\0"
        while content:
            content = content[os.write(self._to, content) :]
        while True:
            found = self._read()
            if found.get("id") == self._number:
                assert "error" not in found, found["error"]
                result = found["result"]
                return result
            self._events.append(found)

    def _read(self):
        while b"\0" not in self._rest:
            content = os.read(self._back, 1 << 16)
            assert content, "the browser has ended"
            self._rest += content
        message, _, self._rest = self._rest.partition(b"\0")
        found = json.loads(message)
        return found


@contextlib.contextmanager
def browser(profile):
    """A browser for the time of the block; `profile` is an empty folder of its own."""
    (theirs_in, to), (back, theirs_out) = os.pipe(), os.pipe()
    # Chromium reads commands at descriptor 3 and writes at 4.
    command = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
    process = subprocess.Popen(
        ["bash", "-c", command, str(CHROMIUM), *_FLAGS, f"--user-data-dir={profile}"],
        pass_fds=(theirs_in, theirs_out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Browser(to, back)
    finally:
        process.terminate()
        process.wait(20)
        os.close(to)
        os.close(back)
