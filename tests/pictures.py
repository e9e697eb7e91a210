"""The pictures of README and docs, all of one finished sweep: `python -m tests.pictures
SWEEP` with Debian's chromium. `make pictures` calls it.

`docs/images/pictures.json` keeps a hash of what the pictures show of a fixed sample, by
which `tests/test_pictures.py` says that they are older than the code.
"""

import base64
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.text import Text

from dashboards import report
from sweep.results import report_files
from sweep.results.tables.trials import results_table
from sweep.settings import from_environment
from sweep.store import sweeps as store
from tests.dashboards import samples
from tests.dashboards.browser import MISSING, browser

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
FACTS = IMAGES / "pictures.json"
_HERO = re.compile(r'<section class="hero.*?\n</section>\n', re.DOTALL)
# Name, width and height of the window, colours, and the element shown, or the window.
_SCREENS = (
    ("first_screen", 1400, 900, "light", ".hero"),
    ("first_screen_dark", 1400, 900, "dark", ".hero"),
    ("report", 1400, 900, "light", ""),
    ("report_dark", 1400, 900, "dark", ""),
    ("report_phone", 390, 844, "light", ""),
)


def shown():
    """Hashes of what the pictures show of a fixed sample: the first screen of a report
    and its styles, and the columns of the table in a terminal.
    """
    from tests.sweep.results.test_select import record

    page = report.html(samples.sweep())
    hero, styles = _HERO.search(page), re.search("<style>.*?</style>", page, re.DOTALL)
    assert hero is not None
    assert styles is not None
    found = [
        record("sgd", baseline=True, ser=0.1, epsilon=float("inf")),
        record("dp", ser=0.3, epsilon=8.0, engine="dp_sgd"),
    ]
    table = [column.head for column in results_table("one", found).columns]
    parts = {"report": hero[0] + styles[0], "terminal": json.dumps(table)}
    return {
        name: hashlib.sha256(text.encode()).hexdigest()[:16]
        for name, text in parts.items()
    }


def make(name):
    """Write every picture of the sweep `name`."""
    folder = store.open_sweep(from_environment().home, name)
    # The browser writes to its profile while it ends.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        page = report_files.write(folder, Path(place) / "out", epsilon_max=8.0).page
        with browser(Path(place) / "profile") as window:
            for picture, width, height, colours, element in _SCREENS:
                window.resize(width, height)
                window.media(prefers_color_scheme=colours)
                window.open(page.as_uri())
                (IMAGES / f"{picture}.png").write_bytes(_taken(window, element))
    for width in (80, 120):
        _terminal(name, width)
    FACTS.write_text(json.dumps({"sweep": name, **shown()}, indent=1) + "\n")


def _taken(window, element):
    options = {}
    if element:
        box = window.run(
            "const b = document.querySelector(arguments[0]).getBoundingClientRect();"
            " return [b.x, b.y, b.width, b.height]",
            element,
        )
        sides = ("x", "y", "width", "height")
        options = {"clip": {**dict(zip(sides, box, strict=True)), "scale": 1}}
    taken = window.call("Page.captureScreenshot", format="png", **options)
    whole = Image.open(io.BytesIO(base64.b64decode(taken["data"]))).convert("RGB")
    out = io.BytesIO()
    few = whole.quantize(128, dither=Image.Dither.NONE)  # a third of the bytes
    few.save(out, format="png", optimize=True)
    return out.getvalue()


def _terminal(name, width):
    """What `sweep show` prints in a terminal, as SVG."""
    command = [sys.executable, "-m", "sweep", "show", name]
    terminal = {**os.environ, "COLUMNS": str(width), "FORCE_COLOR": "1"}
    said = subprocess.run(
        command, env=terminal, capture_output=True, text=True, check=True
    ).stdout
    with open(os.devnull, "w") as nowhere:
        out = Console(record=True, width=width, file=nowhere, force_terminal=True)
        out.print(Text.from_ansi(said))
    text = out.export_svg(title=f"$ sweep show {name}", unique_id=f"terminal-{width}")
    (IMAGES / f"terminal_{width}.svg").write_text(text)


if __name__ == "__main__":
    if MISSING is not None:
        sys.exit(f"expected Debian's package chromium: {MISSING}")
    make(sys.argv[1] if len(sys.argv) > 1 else "quick")
