"""The page to hand on: complete, self-contained, escaped, and with the numbers it was given."""

import csv
import io
import math
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from dashboards import charts, render, report, tables
from dashboards.render import svg
from dashboards.results import Choice
from tests.dashboards import samples
from trainables.cards import card as cards
from trainables.cards.page import to_markdown

SVG = "{http://www.w3.org/2000/svg}"
VOID = {"meta", "link", "br", "line", "circle", "rect", "path", "img", "input"}


class Page(HTMLParser):
    """The page's elements, its text, and whether every element that opens also closes."""

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.open = []
        self.words = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def having(self, name):
        return [attributes for _, attributes in self.elements if name in attributes]


@pytest.fixture(scope="module")
def sweep():
    return samples.sweep()


@pytest.fixture(scope="module")
def page(sweep):
    return Page(report.html(sweep))


def test_the_answer_comes_first_and_says_what_it_costs(page):
    answer = page.text.find("At epsilon ≤ 8 use dp ")
    assert 0 < answer < page.text.find("Error, epsilon and leakage")
    assert "55.0 errors in 100, 5.5 times those of SGD." in page.text
    assert "1.5 times the baseline" in page.text


def test_where_no_trial_is_private_enough_the_page_says_so_and_what_there_is():
    found = {"choice": Choice(epsilon_max=1.0), "answer": ("no trial has epsilon ≤ 1",)}
    page = Page(report.html(samples.sweep(**found, card=None, config="")))
    assert "No trial has epsilon ≤ 1" in page.text
    assert "There is no card" in page.text


def changed(card, **fields):
    return cards.read({**card.to_dict(), **fields}, where="sample")


def test_the_card_on_the_page_is_the_card_of_the_export():
    """Every sentence and figure of the exported Markdown stands on the page."""
    made = samples.sweep()
    assert made.card is not None
    exported = to_markdown(made.card)
    shown = " ".join(Page(report.html(made)).text.split())
    lines = exported.replace("| --- | --- | --- |", "").splitlines()[1:]
    for line in lines:
        for part in line.strip("#-|> ").split(" | "):
            assert " ".join(part.replace("|", " ").split()) in shown
    for words in (
        "n 1200",
        "q 0.05",
        "attacked with lira, loss_threshold",
        "reviewer date decision",
    ):
        assert words in shown
    review = {"reviewer": "A. Person", "date": "2026-11-22", "decision": "may leave"}
    signed = Page(report.html(replace(made, card=changed(made.card, review=review)))).text
    assert "A. Person 2026-11-22 may leave" in " ".join(signed.split())
    assert "Nobody has reviewed it yet" not in signed


def test_every_element_is_closed_and_every_name_is_given_once(page):
    assert page.open == []
    names = [attributes["id"] for attributes in page.having("id")]
    assert len(names) == len(set(names))
    known = set(names)
    for attributes in page.having("href"):
        if attributes["href"].startswith("#"):
            assert attributes["href"][1:] in known
    for attributes in page.having("aria-labelledby"):
        assert set(attributes["aria-labelledby"].split()) <= known


def test_the_page_asks_the_network_for_nothing(page):
    for tag, attributes in page.elements:
        for name in ("src", "href", "action", "poster"):
            value = attributes.get(name, "#")
            assert value.startswith(("#", "data:")), (tag, value)
    text = report.html(samples.sweep())
    assert "url(" not in text
    assert "@import" not in text
    [policy] = [a["content"] for a in page.having("http-equiv")]
    assert policy.startswith("default-src 'none'")


def test_text_of_a_user_never_becomes_markup(sweep):
    text = report.html(sweep)
    assert samples.INJECTED not in text
    assert "<script>alert" not in text
    assert [tag for tag, _ in Page(text).elements].count("script") == 1


def test_the_table_of_trials_holds_the_exact_numbers(page, sweep):
    cells = [a for a in page.having("data-metric") if a["data-metric"] == "ser"]
    shown = {float(cell["data-value"]) for cell in cells if cell.get("data-value")}
    assert shown == {trial.metrics["ser"] for trial in sweep.measured_trials}
    epsilons = {
        a["data-value"] for a in page.having("data-metric") if a["data-metric"] == "epsilon"
    }
    assert {"8.0", "50.0", "inf", "600000.0"} <= epsilons


def test_every_chart_has_a_name_a_description_and_words_for_each_point(page, sweep):
    drawn = [a for tag, a in page.elements if tag == "svg" and a.get("class") == "chart"]
    assert len(drawn) == 4
    for attributes in drawn:
        assert attributes["role"] == "group"
        assert {"aria-labelledby", "aria-describedby"} <= attributes.keys()
    points = [a for a in page.having("data-trial") if a.get("role") == "img"]
    assert {a["data-trial"] for a in points} == {trial.id for trial in sweep.measured_trials}
    assert all(a["aria-label"] for a in points)


def test_figures_for_the_curator_are_marked_and_absent_from_a_public_page(sweep):
    assert "curator only" in Page(report.html(sweep)).text
    bare = tuple(
        replace(each, metrics={k: v for k, v in each.metrics.items() if not k.startswith("mia_")})
        for each in sweep.trials
    )
    public = Page(report.html(samples.sweep(trials=bare), public=True))
    assert "Membership attacks" not in public.text
    assert "AUC of the" not in public.text
    assert "only the curator of the data may see are left out" in public.text


def test_a_broken_claim_is_called_a_violation():
    bad = samples.trial("bad", "dp_sgd", 0.5, 2.0, metrics={"epsilon_lower_bound": 3.0})
    good = samples.trial("good", "dp_sgd", 0.5, 8.0, metrics={"epsilon_lower_bound": 0.4})
    text = Page(report.html(samples.sweep(trials=(bad, good)))).text
    assert text.count("violation") == 1
    assert text.count("consistent") == 1


@pytest.mark.parametrize(
    ("audited", "replace_one", "verdict"),
    [
        ("epsilon", 4.0, "violation"),
        ("epsilon_replace_one", 4.0, "consistent"),
        ("epsilon_replace_one", None, "no claim"),
    ],
)
def test_a_bound_is_compared_with_the_epsilon_of_its_own_relation(audited, replace_one, verdict):
    figures = {"epsilon_lower_bound": 3.0, "epsilon_replace_one": replace_one}
    one = samples.trial("one", "dp_sgd", 0.5, 2.0, metrics=figures, audited=audited)
    text = Page(report.html(samples.sweep(trials=(one,)))).text
    found = [word for word in ("violation", "consistent", "no claim") if word in text]
    assert found == [verdict]


def test_a_refused_trial_is_in_the_table_with_its_reason(page):
    assert "epsilon 1e+09 exceeds the budget" in page.text


def test_a_sweep_of_one_bare_trial_makes_a_page():
    only = replace(
        samples.sweep().trials[-1], status="done", epsilon=math.inf, metrics={"ser": 0.2}
    )
    bare = samples.sweep(trials=(only,), choice=Choice(epsilon_max=8.0), card=None)
    assert Page(report.html(bare)).open == []
    assert charts.every(bare) == []


def test_csv_files_hold_what_the_page_shows(sweep):
    made = tables.files(sweep)
    assert set(made) == {"trials.csv", "epochs.csv"}
    rows = list(csv.DictReader(io.StringIO(made["trials.csv"])))
    assert [row["trial"] for row in rows] == [trial.id for trial in sweep.trials]
    assert rows[0]["epsilon"] == "inf"
    assert float(rows[1]["ser"]) == 0.15


def test_a_spreadsheet_takes_no_name_for_a_formula():
    assert tables.text([{"name": "=cmd()", "change": -1.5}]) == "name,change\n'=cmd(),-1.5\n"


def test_every_chart_comes_as_a_picture(sweep):
    names = {chart.name for chart in charts.every(sweep)}
    assert names == {"frontier-epsilon", "leakage-epsilon", "slice-c", "slice-decay"}
    for chart in charts.every(sweep):
        assert chart.name.startswith(charts.BEGINNINGS)  # by which an earlier report's are removed
        assert render.png(chart).startswith(b"\x89PNG")


def test_a_slice_has_each_trial_at_its_value_in_the_colour_of_its_epsilon(sweep):
    by_name = {chart.name: chart for chart in charts.slices(sweep)}
    numbers, words = by_name["slice-c"], by_name["slice-decay"]
    assert numbers.x.is_log
    assert [(p.x, p.look) for p in numbers.points] == [
        (0.5, "epsilon-huge"), (1.0, "epsilon-10"), (10.0, "epsilon-1000"),
    ]  # fmt: skip
    assert words.x.names == ("none", "linear:0.1")
    assert sorted(p.x for p in words.points) == [0.0, 1.0]
    repeated = [replace(t, values={"seed": float(n)}) for n, t in enumerate(sweep.trials)]
    assert charts.slices(replace(sweep, trials=tuple(repeated), axes=("seed",))) == []


def test_few_points_have_their_names_and_no_name_covers_another(sweep):
    drawn = charts.frontier(sweep)
    assert {point.label for point in drawn.points} == {t.name for t in sweep.measured_trials}
    figure = render.figure(drawn)
    figure.canvas.draw()
    boxes = [
        words.get_window_extent()
        for words in figure.axes[0].texts
        if words.get_text() in {t.name[:24] for t in sweep.measured_trials}
    ]
    assert len(boxes) > 3
    assert not any(a.overlaps(b) for place, a in enumerate(boxes) for b in boxes[:place])
    many = tuple(samples.trial(f"t{n:02}", "dp_sgd", 0.1, 1.0 + n) for n in range(13))
    assert {p.label for p in charts.frontier(samples.sweep(trials=many)).points} == {""}


def test_the_page_says_what_mattered_and_what_to_try_next(sweep, page):
    assert page.text.index("Words") < page.text.index("Error, epsilon and leakage")
    assert page.text.rindex("What mattered") < page.text.rindex("Membership attacks")
    found = replace(sweep, mattered={"C": 0.9}, explains=0.8, next_steps=("C: try smaller",))
    text = Page(report.html(found)).text
    assert "C 90 %" in text
    assert "explains 80 % of it" in text
    assert "C: try smaller." in text


def test_an_epsilon_that_guarantees_little_has_an_amber_bar(sweep, page):
    weak = {
        attributes["data-trial"]
        for attributes in page.having("data-trial")
        if "weak" in attributes.get("class", "").split()
    }
    assert weak == {t.id for t in sweep.trials if (t.epsilon or 0) > 10}
    assert "An epsilon above 10 guarantees little." not in page.text
    chosen = replace(sweep.choice, trial="e2e2", epsilon_max=60.0)
    assert (
        "An epsilon above 10 guarantees little."
        in Page(report.html(replace(sweep, choice=chosen))).text
    )


def test_equal_charts_are_equal_bytes(sweep):
    chart = charts.frontier(sweep)
    assert svg(chart) == svg(chart)
    assert render.png(chart) == render.png(chart)


def test_a_page_of_a_large_sweep_stays_small():
    many = tuple(
        samples.trial(f"t{number:03}", "dp_sgd", 0.1 + number / 1e4, 1.0 + number)
        for number in range(1_000)
    )
    text = report.html(samples.sweep(trials=many))
    assert len(text.encode()) < 1.5e6
    assert "300 of 1000 trials; all are in" in Page(text).text


def test_an_engine_has_one_colour_in_both_kinds_of_picture(sweep):
    styles = report.html(sweep)
    for colour in ("#595959", "#0072b2", "#b84f00", "#b8b8b8", "#56b4e9", "#f0995a"):
        assert colour in styles.lower()
    drawn = render.figure(charts.frontier(sweep))
    used = {line.get_color() for axis in drawn.axes for line in axis.get_lines()}
    assert {"#595959", "#0072B2", "#B84F00"} <= used


def test_points_stand_where_their_numbers_say(sweep):
    page = ElementTree.fromstring(svg(charts.frontier(sweep)))
    placed = {
        point.get("data-trial"): tuple(float(marks[-1].get(key, "")) for key in "xy")
        for point in page.iter(f"{SVG}g")
        if point.get("data-trial") and (marks := list(point.iter(f"{SVG}use")))
    }
    assert placed["eeee"][0] < placed["e2e2"][0] < placed["bbbb"][0] < placed["aaaa"][0]
    assert placed["eeee"][1] < placed["e2e2"][1] < placed["bbbb"][1] < placed["aaaa"][1]


def test_the_best_of_a_private_selection_has_the_epsilon_of_the_choice():
    total = {"epsilon": 8.0, "num_releases": 1, "delta": 1e-5, "accountant": "pld"}
    price = {"law": "geometric", "mean": 20.0, "delta": 1e-5, "epsilon_one_trial": 3.3}
    card = changed(samples.sweep().card, sweep_total=total, selection=price)
    page = Page(report.html(samples.sweep(card=card)))
    assert "of a secret number of trials, of which no other is shown" in page.text
    assert "(geometric law, mean 20), one trial alone would have 3.3" in page.text
    assert "nothing else of the sweep leaves your hands" not in page.text
    alone = Page(report.html(samples.sweep())).text
    assert "holds as long as nothing else of the sweep leaves your hands" in alone
    assert "the epsilon of all of them together is ∞, which guarantees little" in alone
    assert "Not in that: no noise (sgd)." in alone
