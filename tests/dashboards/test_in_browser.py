"""The report in a real Chromium: no complaint on the console, nothing wider than the
window, usable with the keyboard, and without findings of axe in light, dark and print.
"""

import os
from pathlib import Path

import pytest

from dashboards import report
from tests.dashboards import samples
from tests.dashboards.browser import MISSING, browser

pytestmark = [
    pytest.mark.slow,  # needs Debian's chromium
    pytest.mark.skipif(MISSING is not None, reason=str(MISSING)),
]
_SIZES = {"desktop": (1400, 900), "phone": (390, 844)}
_TILES = ("guarantee", "measured", "cost", "spent")
_TAB, _RIGHT, _ESCAPE = "Tab", "ArrowRight", "Escape"
# Where `npm install axe-core` puts it; $AXE_CORE names another place.
_AXE = Path(os.environ.get("AXE_CORE", "node_modules/axe-core/axe.min.js"))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(report.html(samples.sweep()))
    return path.as_uri()


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.mark.parametrize("size", _SIZES)
def test_the_page_renders_without_a_complaint_and_fits(window, page, size):
    width, height = _SIZES[size]
    window.resize(width, height)
    window.open(page)
    assert window.complaints() == []
    assert window.run("return document.documentElement.scrollWidth") <= width
    drawn = "[...document.querySelectorAll('svg.chart')].filter(e => e.getClientRects().length)"
    assert window.run(f"return {drawn}.length") == 8
    assert window.run(
        f"return {drawn}.every(e => e.getBoundingClientRect().width > 200)"
    )


@pytest.mark.parametrize("size", _SIZES)
def test_the_first_screen_answers_every_question(window, page, size):
    """Which model, how good, private and leaky, at what cost, and what next; and on a
    desktop the frontier, whole.
    """
    width, height = _SIZES[size]
    window.resize(width, height)
    window.open(page)
    names = [".hero h2", ".sub", *(f"#{n}" for n in _TILES), ".next"]
    names += [".seen figcaption"] if size == "desktop" else [".seen svg"]
    for name in names:
        place = "top" if size == "phone" else "bottom"
        box = f"document.querySelector('{name}').getBoundingClientRect().{place}"
        assert 0 < window.run(f"return {box}") < height, name


def test_a_click_on_a_point_marks_its_trial_everywhere(window, page):
    window.open(page)
    click = """
        document.querySelector('#frontier-epsilon [data-trial=eeee]')
            .dispatchEvent(new Event('click'));
    """
    marked = "return document.querySelectorAll('tr.hl[data-trial=eeee]').length"
    window.run(click)
    assert window.run(marked) >= 2
    assert window.run("return document.querySelectorAll('svg .dim').length") > 0
    window.run(click)
    assert window.run(marked) == 0
    assert window.run("return document.querySelectorAll('svg .dim').length") == 0
    assert window.complaints() == []


def test_a_chart_is_one_stop_of_the_tab_key_and_arrows_go_from_point_to_point(
    window, page
):
    window.resize(*_SIZES["desktop"])
    window.open(page)
    window.run("[...document.querySelectorAll('nav a')].pop().focus()")
    window.keys(_TAB)
    window.run(
        "return new Promise(done => requestAnimationFrame(() => setTimeout(done, 200)))"
    )
    focused = "return document.activeElement.dataset.trial"
    tip = (
        "const t = document.getElementById('tip'); return t.hidden ? '' : t.textContent"
    )
    assert window.run(focused) == "eeee"  # the smallest epsilon stands first
    assert window.run(tip).startswith("dp ")
    assert "55.0 errors in 100" in window.run(tip)
    window.keys(_RIGHT)
    assert window.run(focused) == "e2e2"
    window.keys(_ESCAPE)
    assert window.run(tip) == ""
    window.keys(_TAB)
    assert window.run("return document.activeElement.closest('svg')?.id") == (
        "learning-curves"
    )


def test_a_table_sorts_by_its_numbers_and_says_so(window, page):
    window.open(page)
    click = "document.querySelectorAll('#all-trials thead button')[2].click()"
    first = "return document.querySelector('#all-trials tbody tr').dataset.trial"
    sorting = "return document.querySelectorAll('#all-trials th')[2].getAttribute('aria-sort')"
    window.run(click)
    assert (window.run(first), window.run(sorting)) == ("aaaa", "ascending")
    window.run(click)
    assert (window.run(first), window.run(sorting)) == ("ffff", "descending")


def test_without_scripts_every_chart_is_there(window, tmp_path):
    head, _, rest = report.html(samples.sweep()).partition("<script>")
    bare = tmp_path / "bare.html"
    bare.write_text(head + rest.partition("</script>")[2])
    window.open(bare.as_uri())
    hidden = "[...document.querySelectorAll('svg.chart')].filter(e => !e.getClientRects().length)"
    assert window.run(f"return {hidden}.length") == 0


@pytest.mark.parametrize("look", ["light", "dark", "print"])
@pytest.mark.parametrize("size", _SIZES)
def test_axe_finds_nothing_wrong(window, page, look, size):
    if not _AXE.exists():
        pytest.skip("no axe-core here (npm install axe-core, or $AXE_CORE)")
    window.resize(*_SIZES[size])
    window.media(type="print" if look == "print" else "", prefers_color_scheme=look)
    window.open(page)
    # A fault of our own, so that silence means something.
    window.run(
        "document.body.insertAdjacentHTML('beforeend', '<button"
        ' id="fault"></button>\')'
    )
    window.run(_AXE.read_text())
    window.run("axe.run().then(found => { window.found = found.violations; })")
    window.wait_for("!!window.found")
    findings = window.run(
        "return window.found.map(f => f.id + ': ' + f.nodes.map(n => n.target).slice(0,"
        " 5))"
    )
    window.media(prefers_color_scheme="light")
    assert [finding.partition(":")[0] for finding in findings] == ["button-name"], (
        findings
    )
