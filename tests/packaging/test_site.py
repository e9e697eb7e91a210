import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("material")
pytest.importorskip("mkdocstrings")
ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / ".ci" / "mkdocs.yml"


def build(config, target):
    command = [sys.executable, "-W", "ignore", "-m", "mkdocs", "build", "--strict"]
    command += ["--config-file", str(config), "--site-dir", str(target)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.slow  # the theme is in the extra `docs`
def test_the_site_builds_and_asks_no_other_machine(tmp_path):
    done = build(CONFIG, tmp_path / "site")
    assert done.returncode == 0, done.stderr
    pages = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    made = {
        path.relative_to(tmp_path / "site")
        for path in (tmp_path / "site").rglob("*.html")
    }
    assert {
        page.with_suffix(".html") for page in pages if page.name != "README.md"
    } <= made
    for page in made:
        text = (tmp_path / "site" / page).read_text()
        loaded = re.findall(
            r"<(?:script|img|link)[^>]* (?:src|href)=\"(https?:[^\"]+)\"", text
        )
        assert loaded == [], page
    reference = (tmp_path / "site" / "api.html").read_text()
    functions = [f"sweep.{name}" for name in ("plan", "run", "extend", "load_model")]
    functions += ["sweep.results.frame.results", "sweep.from_python.SweepPlan"]
    for name in (*functions, "trainables.dp.mechanism.Mechanism.sensitivity"):
        assert f'id="{name}"' in reference, name


@pytest.mark.slow
def test_a_link_that_leads_nowhere_fails_the_build(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(
        "# One\n\n[there](#one) [nowhere](#two)\n"
    )
    text = re.sub(r"^nav:\n(?: .*\n)+", "", CONFIG.read_text(), flags=re.MULTILINE)
    text = text.replace("docs_dir: ../docs", f"docs_dir: {tmp_path / 'docs'}")
    text = text.replace("custom_dir: theme", f"custom_dir: {CONFIG.parent / 'theme'}")
    (tmp_path / "mkdocs.yml").write_text(text)
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 1
    assert "#two" in done.stderr
    assert "#one" not in done.stderr
