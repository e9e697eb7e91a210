import json
import re
import shlex
from pathlib import Path

import pytest

from sweep.imports.corpus import part_of
from tests.lines import read_lines, write_lines
from trainables.data.records import Utterance
from trainables.io.files import read_yaml

SECRET = "xylophone"


def csv_in(folder, *, number=300):
    path = folder / "mine.csv"
    rows = [
        f"say {SECRET} {n},{'play' if n % 3 else 'stop'},{n}" for n in range(number)
    ]
    path.write_text("text,intent,ticket\n" + "".join(f"{row}\n" for row in rows))
    return path


def test_a_csv_becomes_a_corpus_and_a_schema(place, line):
    code, out, err = line("init", str(csv_in(place)))
    assert (code, err) == (0, "")
    assert SECRET not in out
    assert "text from text, intent from intent; not read: ticket." in out
    assert "300 records, 300 with an intent, 0 with a slot." in out
    assert "the label names in mine/schema.json, read from the records, and" in out
    assert "Exports show both, and no epsilon covers them" in out
    records = read_lines(Path("mine/utterances.jsonl"))
    assert len(records) == 300
    assert {record["part"] for record in records} == {"train", "validation", "test"}
    assert "tags" not in records[0]
    schema = json.loads(Path("mine/schema.json").read_text())
    assert (schema["intents"], schema["slots"]) == (["play", "stop"], [])
    assert schema["source"].startswith(
        "read from the private records"
    )  # the card quotes it


@pytest.mark.parametrize("number", [20, 30, 50])
def test_a_space_of_few_records_plans_whole(number, place, line):
    line.says("init", csv_in(place, number=number))
    plan = line.facts("plan", "mine/space.yaml")
    assert [trial["reason"] for trial in plan["trials"]] == [None] * 4


@pytest.mark.parametrize(
    ("asked", "number"), [(None, 200), (0.7123456, 200), (3.0, 60), (8.0, 3000)]
)
def test_an_asked_epsilon_is_that_of_all_private_trials_together(
    asked, number, place, line
):
    """Also for the paper's trial, a comment, and for one that a user adds."""
    given = () if asked is None else ("--epsilon", asked)
    line.says("init", csv_in(place, number=number), *given)
    space = Path("mine/space.yaml")
    limit = asked or 8.0
    assert read_yaml(space)["budget"] == {"total": limit}
    plan = line.facts("plan", space)
    assert {trial["reason"] for trial in plan["trials"]} == {None}
    assert 0.93 * limit < plan["together"]["epsilon"] <= limit
    private = [t["epsilon"] for t in plan["trials"] if not t["baseline"]]
    assert len(private) == 2
    assert min(private) > 0.99 * max(private)

    def planned():
        return {trial["name"]: trial for trial in line.facts("plan", space)["trials"]}

    whole = space.read_text()
    papers = re.sub(r"(?m)^  # (- name: edp-sgd|  .*)$", r"  \1", whole)
    space.write_text(papers)
    refused = planned()["edp-sgd"]
    assert float(refused["epsilon"]) > 1e3
    assert f"budget.total={limit:g}" in refused["reason"]
    space.write_text(papers.replace("budget:", "# budget:"))
    assert planned()["edp-sgd"]["reason"] is None


def test_advice_can_be_pasted_where_a_name_has_spaces(place, line):
    source = csv_in(place).rename(place / "ann's own file.csv")
    Path("labels.json").write_text(json.dumps({"intents": ["play"], "slots": []}))
    out = line.says("init", source.name, "--schema", "labels.json")
    advised = [shlex.split(words)[-1] for words in re.findall("`(.*?)`", out)]
    header = Path("ann's own file/space.yaml").read_text().splitlines()[0]
    advised += [
        shlex.split(words)[-1] for words in re.findall("`(sweep plan .*?)`", header)
    ]
    assert advised == [
        f"ann's own file/{name}" for name in ("schema.json", *["space.yaml"] * 3)
    ]


def test_advice_can_be_pasted_where_a_name_begins_like_an_option(place, line):
    [command] = re.findall(
        "`sweep (plan .*?)`", line.says("init", csv_in(place), "--to=-mine")
    )
    line.says(*shlex.split(command))


def test_the_heads_are_those_of_the_shipped_space(place, line):
    line.says("init", csv_in(place))
    planned = {}
    for space in ("mine/space.yaml", "epsilon_8"):
        given = ("--set", "repeats=1") if space == "epsilon_8" else ()
        for trial in line.facts("plan", space, *given)["trials"]:
            planned[space, trial["variant"]] = trial["config"]
    assert planned["mine/space.yaml", "sgd"]["training"]["gradient_clip_norm"] == 1
    for mine, shipped in (("heads", "heads, no privacy"), ("dp-heads", "heads")):
        one, other = planned["mine/space.yaml", mine], planned["epsilon_8", shipped]
        for each in (one, other):
            del each["training"]["expected_batch_size"], each["training"]["seed"]
        assert [one["model"], one["training"]] == [other["model"], other["training"]]
        for field in ("max_grad_norm", "sampling"):
            assert one["privacy"].get(field) == other["privacy"].get(field)


def test_slots_alone(place, line):
    path = place / "slots.jsonl"
    rows = [{"text": f"call ann{n}", "slots": [["who", 1, 2]]} for n in range(200)]
    write_lines(path, rows)
    facts = line.facts("init", path, "--to", "calls")
    assert (facts["num_intents"], facts["num_slots"], facts["span_unit"]) == (
        0,
        1,
        "tokens",
    )
    assert json.loads((place / "calls" / "schema.json").read_text())["intents"] == []
    line.says("plan", "calls/space.yaml")


def test_invalid_records_can_be_left_out(place, line):
    with csv_in(place).open("a") as file:
        file.write("cut off\n")
    assert line.facts("init", "mine.csv", "--skip-invalid")["num_invalid"] == 1


def test_repeated_texts_stay_in_the_file(place, line):
    with csv_in(place).open("a") as file:
        assert "Repeated texts" not in line.says("init", "mine.csv", "--to", "before")
        file.write(f"say {SECRET} 0,stop,x\n")
    out = line.says("init", "mine.csv")
    assert (
        "Repeated texts (1) stay in utterances.jsonl; a trial uses the first of equal"
        in out
    )
    assert (
        "Parts with fewer than 100 different texts (validation, test) measure errors"
        in out
    )
    assert len(Path("mine/utterances.jsonl").read_text().splitlines()) == 301


def test_a_wrong_column_of_labels_shows_in_the_number_of_rare_ones(place, line):
    wrong = ("init", str(csv_in(place)), "--intent", "text")
    err = line.refused(*wrong)
    assert "got 0 train" in err
    assert (
        "; 300 labels with fewer than 5 records left out, which --keep-rare-labels"
        " keeps" in err
    )
    out = line.says(*wrong, "--keep-rare-labels")
    assert (
        "fewer than 5 records reveal something about them by their names (300 of 300;"
        in out
    )
    assert SECRET not in out + err


def test_labels_of_few_records_are_no_part_of_the_schema(place, line):
    """Whichever kind of label, and whatever is made of it says so. Their records stay:
    nothing is trained on them, and a model cannot be right about them.
    """
    rows = [
        {"text": f"call ann{n}", "intent": "call", "slots": [["who", 1, 2]]}
        for n in range(90)
    ]
    rows += [
        {"text": f"ring bob{n}", "intent": "ring", "slots": [["who", 1, 2]]}
        for n in range(5)
    ]
    rows += [
        {"text": f"sue eve{n}", "intent": "sue", "slots": [["who", 1, 2]]}
        for n in range(4)
    ]
    rows += [{"text": "call dr who", "intent": "call", "slots": [["title", 1, 2]]}]
    write_lines(Path("calls.jsonl"), rows)
    out = line.says("init", "calls.jsonl")
    assert "Labels with fewer than 5 records are left out of the schema" in out
    assert "(2 of 5; --keep-rare-labels keeps them)" in out
    assert (
        "kept but not used for training, and are errors of every model in validation"
        in out
    )
    assert len(Path("calls/utterances.jsonl").read_text().splitlines()) == 100
    schema = json.loads(Path("calls/schema.json").read_text())
    assert (schema["intents"], schema["slots"]) == (["call", "ring"], ["who"])
    assert (
        "by sweep init (labels of 5 records or more) and declared" in schema["source"]
    )
    chosen = ("calls/utterances.jsonl", "--schema", "calls/schema.json")
    assert "got 5 problems in 100 records" in line("data", "check", *chosen)[2]
    line.says("plan", "calls/space.yaml")
    facts = line.facts("init", "calls.jsonl", "--keep-rare-labels", "--to", "all")
    assert (facts["num_rare_labels"], facts["num_labels_left_out"]) == (2, 0)
    assert facts["num_outside_schema"] == 0
    schema = json.loads(Path("all/schema.json").read_text())
    assert (schema["intents"], schema["slots"]) == (
        ["call", "ring", "sue"],
        ["title", "who"],
    )


def test_labels_that_were_public_before(place, line):
    (place / "public.json").write_text('{"intents": ["play", "sing"], "slots": []}')
    chosen = ("--schema", "public.json", "--tokenize", "punctuation")
    out = line.says("init", csv_in(place), *chosen)
    assert "are errors of every model in validation and test (100;" in out
    assert "read from the" not in out
    schema = json.loads(Path("mine/schema.json").read_text())
    assert (schema["intents"], schema["tokenize"]) == (["play", "sing"], "punctuation")
    code, out, err = line(
        "data", "check", "mine/utterances.jsonl", "--schema", "mine/schema.json"
    )
    assert (code, out.count("expected an intent of the schema")) == (2, 5)
    assert "got 100 problems in 300 records" in err


def test_a_part_hangs_on_the_record_alone():
    """Shares of a hash: 10,000 texts, bounds of 5 standard deviations (false alarm
    below 1e-6).
    """
    texts = [Utterance((f"text{n}",), ("O",), "x") for n in range(10_000)]
    parts = [part_of(text, validation=10, test=20) for text in texts]
    for part, share in (("test", 0.2), ("validation", 0.1), ("train", 0.7)):
        deviation = (10_000 * share * (1 - share)) ** 0.5
        assert abs(parts.count(part) - 10_000 * share) < 5 * deviation
    groups = [Utterance((f"text{n}",), ("O",), "x", group="ann") for n in range(100)]
    assert len({part_of(each, validation=10, test=10) for each in groups}) == 1


def test_a_space_whose_epsilon_covers_every_record(place, line):
    said = line.says("init", csv_in(place), "--covers", "all")
    assert "Parts: 70:10:20 by a hash of each record" in said
    space = read_yaml(Path("mine/space.yaml"))
    assert space["base"]["data"]["split"] == "hash"
    assert space["base"]["data"]["num_records"] == 210
    assert space["base"]["privacy"] == {"covers": "all"}
    plan = line.facts("plan", "mine/space.yaml")
    assert [trial["reason"] for trial in plan["trials"]] == [None] * 3
    assert any("Every record of the file is covered" in note for note in plan["notes"])
    dearest = max(trial["epsilon"] for trial in plan["trials"])
    assert dearest <= 8.0


def test_covers_is_one_of_two_words(place, line):
    assert "'training', 'all'" in line.refused(
        "init", csv_in(place), "--covers", "some"
    )
