"""The page to hand on: complete, self-contained, escaped, and with the numbers it was
given.
"""

import math
import re
from dataclasses import replace
from html import escape
from xml.etree import ElementTree

import pytest

from dashboards import charts, palette, render, report
from dashboards.render import svg
from dashboards.results import Answer, Curve, Roc, Spending, Trial
from tests.dashboards import samples
from tests.dashboards.pages import Page, cells_of
from trainables.cards import card as cards
from trainables.cards.page import to_markdown

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def sweep():
    return samples.sweep()


@pytest.fixture(scope="module")
def page(sweep):
    return Page(report.html(sweep))


def text_of(**fields):
    """The text of the page of a sample with other fields."""
    return Page(report.html(samples.sweep(**fields))).text


def test_the_answer_comes_first_and_says_what_it_costs(page):
    words = ("At ε ≤ 8 use dp ", ": 55.0 errors in 100", "5.5 times those of SGD")
    words += ("ε = 8", "AUC 0.550", "0.881 allowed", "1.5 times aaaa.")
    words += ("All 7 trials: 40 s", "ε = ∞", "Next", "Learning and time")
    words += ("Every attack on every trial", "Errors by label")
    words += ("epsilon 1e+09 exceeds the budget",)
    places = [page.text.rindex(each) for each in words]
    assert places == sorted(places)


def test_failed_trials_are_named_before_the_answer():
    failed = samples.changed(
        samples.trial("cccc", "edp_sgd", 0.1, 9.0), status="failed", reason="no room"
    )
    text = text_of(trials=(*samples.sweep().trials, failed))
    assert text.index("1 trial failed: cccc (no room)") < text.index("At ε ≤ 8")
    assert "failed" not in text_of()


def test_where_no_trial_is_private_enough_the_page_says_so_and_what_there_is():
    found = {
        "epsilon_max": 1.0,
        "chosen": None,
        "answer": Answer(headline="no trial has epsilon ≤ 1"),
    }
    text = text_of(**found, card=None, config="")
    assert "No trial has epsilon ≤ 1" in text
    assert "There is no card" in text


def changed(card, **fields):
    return cards.read({**card.to_dict(), **fields}, where="sample")


def test_the_card_on_the_page_is_the_card_of_the_export(page, sweep):
    """Every sentence and figure of the exported Markdown stands on the page."""
    lines = to_markdown(sweep.card).replace("| --- | --- | --- |", "").splitlines()[1:]
    parts = [part for line in lines for part in line.strip("#-|> ").split(" | ")]
    parts += [
        "n 1200",
        "q 0.05",
        "attacked with lira, loss_threshold",
        "reviewer date decision",
    ]
    for part in parts:
        assert " ".join(part.replace("|", " ").split()) in page.text
    review = {"reviewer": "A. Person", "date": "2026-11-22", "decision": "may leave"}
    signed = text_of(card=changed(sweep.card, review=review))
    assert "A. Person 2026-11-22 may leave" in signed
    assert "Nobody has reviewed it yet" not in signed


def test_every_element_is_closed_and_every_name_is_given_once(page):
    assert page.open == []
    names = [attributes["id"] for attributes in page.having("id")]
    assert len(names) == len(set(names))
    links = [
        each["href"].removeprefix("#")
        for each in page.having("href")
        if each["href"][0] == "#"
    ]
    labels = " ".join(
        each["aria-labelledby"] for each in page.having("aria-labelledby")
    )
    assert {*links, *labels.split()} <= set(names)


def test_the_page_asks_the_network_for_nothing(page):
    for name in ("src", "href", "action", "poster"):
        assert all(each[name].startswith(("#", "data:")) for each in page.having(name))
    text = report.html(samples.sweep())
    assert not [words for words in ("url(", "@import") if words in text]
    [policy] = [a["content"] for a in page.having("http-equiv")]
    assert policy.startswith("default-src 'none'")


def test_text_of_a_user_never_becomes_markup(page, sweep):
    assert "<script>alert" not in report.html(sweep)
    assert [tag for tag, _ in page.elements].count("script") == 1


def test_the_table_of_trials_holds_the_exact_numbers(page, sweep):
    cells = [a for a in page.having("data-metric") if a["data-metric"] == "ser"]
    shown = {float(cell["data-value"]) for cell in cells if cell.get("data-value")}
    assert shown == {trial.columns["ser"] for trial in sweep.measured_trials}
    epsilons = {
        a["data-value"]
        for a in page.having("data-metric")
        if a["data-metric"] == "epsilon"
    }
    assert {"8.0", "50.0", "inf", "600000.0"} <= epsilons


def test_every_chart_has_a_name_a_description_and_words_for_each_point(page, sweep):
    drawn = [
        a for tag, a in page.elements if tag == "svg" and a.get("class") == "chart"
    ]
    assert [a["id"] for a in drawn] == [
        *(
            "frontier-epsilon",
            "learning-curves",
            "error-time",
            "roc",
            "leakage-epsilon",
        ),
        *("slice-c", "slice-decay", "epsilon-time"),
    ]
    for attributes in drawn:
        assert attributes["role"] == "group"
        assert {"aria-labelledby", "aria-describedby"} <= attributes.keys()
    points = [a for a in page.having("data-trial") if a.get("role") == "img"]
    # A line that is no trial's has none.
    assert {a["data-trial"] for a in points} - {""} == {
        trial.id for trial in sweep.measured_trials
    }
    assert all(a["aria-label"] for a in points)


def test_figures_for_the_curator_are_marked_and_absent_from_a_public_page(page, sweep):
    assert "curator only" in page.text
    bare = tuple(
        replace(
            each, columns={k: v for k, v in each.columns.items() if k[:4] != "mia_"}
        )
        for each in sweep.trials
    )
    public = text_of(trials=bare, public=True, roc=Roc(), labels=())
    assert not [
        words
        for words in ("How leaky", "Every attack", "AUC of the", "Errors by label")
        if words in public
    ]
    assert "only the curator of the data may see are left out" in public


@pytest.mark.parametrize(
    ("claimed", "verdict"),
    [(2.0, "violation"), (4.0, "consistent"), (None, "no claim")],
)
def test_a_bound_is_compared_with_the_claim_that_it_is_about(claimed, verdict):
    found = {"epsilon_lower_bound": 3.0, "epsilon_claimed": claimed}
    trial = samples.trial("one", "dp_sgd", 0.5, 2.0, **found)
    text = text_of(trials=(trial,))
    assert [
        word for word in ("violation", "consistent", "no claim") if word in text
    ] == [verdict]


def test_a_sweep_of_one_bare_trial_makes_a_page():
    columns = {"name": "one", "engine": "sgd", "status": "done", "ser": 0.2}
    only = Trial(id="a", columns={**columns, "epsilon": math.inf})
    nothing = {"curves": (), "roc": Roc(), "spending": Spending(), "labels": ()}
    bare = samples.sweep(trials=(only,), chosen=None, card=None, **nothing)
    assert Page(report.html(bare)).open == []
    assert not any(charts.every(bare).values())


@pytest.mark.parametrize("value", [math.nan, math.inf, None, -1.0])
def test_a_figure_that_is_no_number_breaks_no_page(value):
    ends = {
        f"{name}{end}": value for name in ("ser", "leakage") for end in ("", "_low")
    }
    whole = samples.trial("cccc", "edp_sgd", 0.1, 9.0)
    broken = samples.changed(whole, **ends, seconds=value)
    found = samples.sweep(trials=(*samples.sweep().trials[:1], broken), chosen="cccc")
    page = report.html(found)
    assert Page(page).open == []
    assert not {"nan", "NaN"} & set(Page(page).text.split())
    assert not re.search(r' (d|c?[xy]|transform)="[^"]*(nan|inf)', page)


def test_long_names_with_pictures_are_never_cut():
    name = "🙂 a name of many signs, " * 3 + "learning_rate 0.0001"
    one = samples.trial("cccc", "edp_sgd", 0.1, 9.0, name=name)
    found = samples.sweep(trials=(*samples.sweep().trials[:1], one), chosen="cccc")
    drawn = svg(charts.frontier(found))
    words = [escape(line) for line in render.wrapped(name, 22)]
    assert all(f">{line}</text>" in drawn for line in words)


def test_every_chart_comes_as_a_picture(sweep):
    drawn = [chart for part in charts.every(sweep).values() for chart in part]
    names = {chart.name for chart in drawn}
    assert names == {*charts.NAMES, "slice-c", "slice-decay"}
    for chart in drawn:
        picture = ElementTree.fromstring(render.file(chart))
        assert picture.tag == f"{SVG}svg"
        assert "prefers-color-scheme: dark" in render.file(chart)
        assert chart.title in picture.itertext()


def test_a_slice_has_each_trial_at_its_value_in_the_colour_of_its_epsilon(sweep):
    by_name = {chart.name: chart for chart in charts.slices(sweep)}
    numbers, words = by_name["slice-c"], by_name["slice-decay"]
    assert numbers.x.is_log
    assert [(p.x, p.look) for p in numbers.points] == [
        (0.5, "epsilon-huge"), (1.0, "epsilon-10"), (10.0, "epsilon-1000"),
    ]  # fmt: skip
    assert words.x.names == ("none", "linear:0.1")
    assert sorted(p.x for p in words.points) == [0.0, 1.0]
    repeated = [replace(t, axes={"seed": float(n)}) for n, t in enumerate(sweep.trials)]
    assert charts.slices(replace(sweep, trials=tuple(repeated), axes=("seed",))) == []


def test_few_points_have_their_names_and_no_name_covers_another(sweep):
    drawn = charts.frontier(sweep)
    assert {point.label for point in drawn.points} == {
        t.name for t in sweep.measured_trials
    }
    page = ElementTree.fromstring(render.file(drawn))
    names = {line for p in drawn.points for line in render.wrapped(p.label, 22)}
    boxes = []
    for words in page.iter(f"{SVG}text"):
        if words.text in names:
            x, y = float(words.get("x", "")), float(words.get("y", ""))
            boxes.append((x, y - 9, x + 5 * len(words.text), y))
    assert len(boxes) > 3
    for place, (left, top, right, bottom) in enumerate(boxes):
        for other in boxes[:place]:
            is_apart = right <= other[0] or other[2] <= left
            assert is_apart or bottom <= other[1] or other[3] <= top
    many = tuple(samples.trial(f"t{n:02}", "dp_sgd", 0.1, 1.0 + n) for n in range(13))
    assert {p.label for p in charts.frontier(samples.sweep(trials=many)).points} == {""}


def test_the_answer_is_never_beyond_the_edge_of_its_chart(sweep):
    drawn = charts.frontier(sweep)
    best = next(point for point in drawn.points if point.trial == "eeee")
    assert drawn.y.high is None or max(best.y.ends) < drawn.y.high
    far = samples.trial("far", "untrained", 9.0, 1e-3)
    high = charts.frontier(samples.sweep(trials=(*sweep.trials, far))).y.high
    assert high is not None
    assert high < 100  # errors in 100: the far one is at the edge


def test_the_page_says_what_mattered_and_what_to_try_next():
    text = text_of(mattered={"C": 0.9}, explains=0.8, next_steps=("C: try smaller",))
    for words in ("C 90 %", "explains 80 % of it", "C: try smaller."):
        assert words in text
    assert "explains 12 % of" in text_of(explains=0.12)
    assert "a forest over" not in text_of()


def test_a_paired_change_within_its_interval_is_noise(sweep):
    def said(low):
        ends = {"delta_ser_percent": 10.0, "delta_ser_percent_high": 21.0}
        columns = {**ends, "delta_ser_percent_low": low, "pareto_optimal": True}
        one = samples.trial("b", "dp_sgd", 0.4, 8.0, **columns, compared_with="aaaa")
        return "within noise" in text_of(trials=(sweep.trials[0], one), chosen="b")

    assert said(-1.0)
    assert not said(1.0)


def test_a_change_from_a_baseline_that_may_make_no_error_has_no_interval(sweep):
    columns = {"delta_ser_percent": 580.0, "delta_ser_percent_low": 110.0}
    one = samples.trial("b", "dp_sgd", 0.02, 8.0, **columns, compared_with="aaaa")
    text = report.html(samples.sweep(trials=(sweep.trials[0], one), chosen="b"))
    assert cells_of(text)["b", "delta_ser_percent"] == 580.0
    assert "within noise" not in text


def test_a_change_on_the_page_is_that_of_the_table_to_the_last_digit(sweep):
    change = {"delta_ser_percent": 65.83333333333334, "compared_with": "aaaa"}
    one = samples.trial("b", "dp_sgd", 0.4, 8.0, **change)
    text = report.html(samples.sweep(trials=(sweep.trials[0], one), chosen="b"))
    assert cells_of(text)["b", "delta_ser_percent"] == 65.83333333333334


def test_an_epsilon_that_guarantees_little_has_an_amber_bar(sweep, page):
    rows = page.having("data-trial")
    weak = {row["data-trial"] for row in rows if "weak" in row.get("class", "").split()}
    assert weak == {t.id for t in sweep.trials if (t.epsilon or 0) > 10}
    warning = "An epsilon above 10 guarantees little."
    assert warning not in page.text
    assert warning in text_of(chosen="e2e2", epsilon_max=60.0)


@pytest.mark.parametrize(("number", "most"), [(6, 150), (300, 1200), (1_000, 1200)])
def test_a_page_stays_small(number, most):
    """In KiB, by the number of trials, with the tables of a real sweep beside it."""
    many = tuple(
        samples.trial(f"t{place:03}", "dp_sgd", 0.1 + place / 1e4, 1.0 + place)
        for place in range(number)
    )
    points = tuple((float(epoch), 0.5) for epoch in range(20))
    drawn = tuple(Curve(trial=trial.id, points=points) for trial in many)
    fields = {"trials": many, "curves": drawn, "chosen": "t003", "roc": Roc()}
    text = report.html(samples.sweep(**fields))
    assert len(text.encode()) < most * 1024
    if number > 300:
        assert "300 of 1000 trials; all are in" in Page(text).text


def test_an_engine_has_one_colour_in_page_and_picture(sweep):
    for text in (report.html(sweep), render.file(charts.frontier(sweep))):
        for colour in ("#595959", "#0072b2", "#b84f00", "#b8b8b8", "#56b4e9"):
            assert colour in text.lower()


def test_epsilon_has_one_scale_from_dark_to_light():
    """The more private, the darker; on a dark screen the lighter."""

    def lightness(colour):
        return sum(int(colour[at : at + 2], 16) for at in (1, 3, 5))

    names = ("epsilon-1", "epsilon-10", "epsilon-1000", "epsilon-huge")
    light = [lightness(palette.colour(name)) for name in names]
    dark = [lightness(palette.colour(name, dark=True)) for name in names]
    assert light == sorted(light)
    assert dark == sorted(dark, reverse=True)


def test_points_stand_where_their_numbers_say(sweep):
    text = render.file(charts.frontier(sweep))
    placed = {}
    for point in ElementTree.fromstring(text).iter(f"{SVG}g"):
        marks = [e for e in point.iter(f"{SVG}path") if e.get("class") == "mark"]
        if point.get("data-trial") and marks:
            numbers = re.findall(r"[\d.]+", marks[0].get("transform", ""))
            placed[point.get("data-trial")] = [float(number) for number in numbers[:2]]
    assert placed["eeee"][0] < placed["e2e2"][0] < placed["bbbb"][0] < placed["aaaa"][0]
    assert placed["eeee"][1] < placed["e2e2"][1] < placed["bbbb"][1] < placed["aaaa"][1]


def test_the_best_of_a_private_selection_has_the_epsilon_of_the_choice(page):
    total = {"epsilon": 8.0, "num_releases": 1, "delta": 1e-5, "accountant": "pld"}
    price = {"law": "geometric", "mean": 20.0, "delta": 1e-5, "epsilon_one_trial": 3.3}
    selected = text_of(
        card=changed(samples.sweep().card, sweep_total=total, selection=price)
    )
    of_choice = ("of a secret number of trials, of which no other is shown",)
    of_choice += ("(geometric law, mean 20), one trial alone would have 3.3",)
    of_one = ("holds as long as nothing else of the sweep leaves your hands",)
    of_one += ("ε = ∞ This is of all 7 private trials together",)
    of_one += ("guarantees little: so hand on this trial and keep the others",)
    of_one += ("Not in the epsilon of the sweep: no noise (sgd).",)
    for text, said, not_said in (
        (selected, of_choice, of_one),
        (page.text, of_one, of_choice),
    ):
        assert all(words in text for words in said)
        assert not any(words in text for words in not_said)
