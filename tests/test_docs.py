"""Documentation: links are valid, the index lists every page, paths in the source
exist.
"""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    [
        *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")),
        ROOT / "SECURITY.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
)
GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
# `sweep/store/state.py`, or with a name that the file has: `.../state.py: SweepState`.
_PLACE = re.compile(
    r"`((?:trainables|sweep|search_spaces|dashboards|tests|benchmarks|docs|\.ci)/[\w./-]+)"
    r"(?:: ([\w.]+))?`"
)
_PATH = re.compile(r"\bdocs/[\w/.-]+\.(?:md|svg|png)\b")


def headings(text):
    """Anchors of a page, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles
    }


def broken_links(page):
    """Links of a page that lead nowhere; addresses on the network are not tried."""
    found = []
    for link in _LINK.findall(page.read_text()):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        there = target.exists()
        if not there or (anchor and anchor not in headings(target.read_text())):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert broken_links(page) == []


def test_the_index_lists_every_page():
    index = ROOT / "docs" / "README.md"
    links = re.findall(r"\]\((\S+\.(?:md|ipynb))\)", index.read_text("utf-8"))
    linked = {(index.parent / link).resolve() for link in links}
    notebooks = set((ROOT / "docs").rglob("*.ipynb"))
    assert linked == {*(ROOT / "docs").rglob("*.md"), *notebooks} - {index}
    folders = {"docs", "decisions", "guides", "reference"}
    assert {page.parent.name for page in linked} == folders


def missing_places(text):
    """Paths of the source that a page names and that do not exist, or lack the name."""
    found = []
    for path, name in _PLACE.findall(text):
        place = ROOT / path
        if "NAME" in path or re.fullmatch(r"\w+/\d+", path):  # `dashboards/1`: a schema
            continue
        if not place.exists():
            found.append(path)
        elif name and not re.search(
            rf"\b{name.rpartition('.')[2]}\b", place.read_text("utf-8")
        ):
            found.append(f"{path}: {name}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_places_in_the_source_exist(page):
    assert missing_places(page.read_text("utf-8")) == []


def test_a_missing_place_is_found():
    assert missing_places(
        "`sweep/cli.py`, `sweep/cli.py: build`, `trainables/dp/`, `sweep/gone.py`,"
        " `sweep/cli.py: not_there`, `sweep/commands/NAME.py`"
    ) == ["sweep/gone.py", "sweep/cli.py: not_there"]


def test_the_navigation_of_the_site_has_every_page():
    entries = yaml.safe_load((ROOT / ".ci" / "mkdocs.yml").read_text("utf-8"))["nav"]
    found = re.findall(r"[\w/]+\.(?:md|ipynb)", str(entries))
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]
    assert sorted(found) == sorted(
        str(page.relative_to(ROOT / "docs")) for page in pages
    )


def test_a_record_of_a_decision_has_three_parts():
    for page in (ROOT / "docs" / "decisions").glob("*.md"):
        titles = re.findall(r"^## (.+)$", page.read_text("utf-8"), flags=re.MULTILINE)
        assert titles == ["Context", "Choice", "Consequence"], page.name


def test_the_glossary_is_one_page():
    assert len((ROOT / "docs/glossary.md").read_text("utf-8").splitlines()) <= 60


DIALECT = re.compile(r"\b(told|untold|judged|judges|nobody|asked for)\b", re.IGNORECASE)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_guides_are_in_the_terms_of_the_field(page):
    """Trials are significant or indistinguishable, text is scored, a search has
    observations.
    """
    found = [
        line for line in page.read_text("utf-8").splitlines() if DIALECT.search(line)
    ]
    assert found == []


def test_paths_of_pages_in_the_source_exist():
    files = subprocess.run(
        ["git", "ls-files", "*.py", "*.yaml", "*.template", "*.toml", "*.j2"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    texts = {
        name: (ROOT / name).read_text("utf-8")
        for name in files
        if (ROOT / name).exists()
    }
    lost = {
        f"{name}: {path}"
        for name, text in texts.items()
        for path in _PATH.findall(text)
        if not (ROOT / path).exists()
    }
    assert lost == set()


def test_a_broken_link_is_found(tmp_path):
    (tmp_path / "there.md").write_text("# What is there?\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](there.md) [b](gone.md) [c](there.md#what-is-there) [d](there.md#gone)"
        " [e](#here)\n[f](https://example.org/x)\n## Here\n"
    )
    assert broken_links(page) == ["gone.md", "there.md#gone"]
