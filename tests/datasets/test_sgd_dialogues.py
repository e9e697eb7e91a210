"""The Schema-Guided Dialogue reader: both forms, spans of characters as spans of
tokens.
"""

import json

import pytest

from tests.refusals import refused
from tests.utterances import said
from trainables.config.trial import data_config
from trainables.errors import InvalidData

CONFIG = data_config(name="sgd_dialogues")


def _turn(text, spans, *, speaker="USER"):
    slots = [
        {
            "slot": name,
            "start": text.index(value),
            "exclusive_end": text.index(value) + len(value),
        }
        for name, value in spans
    ]
    frame = {
        "service": "Flights_1",
        "slots": slots,
        "state": {"active_intent": "SearchOnewayFlight"},
    }
    return {"speaker": speaker, "utterance": text, "frames": [frame]}


def _read(folder, turns, *, part="dev"):
    (folder / part).mkdir()
    file = folder / part / "dialogues_001.json"
    file.write_text(json.dumps([{"turns": turns}]))
    return list(CONFIG.read(folder))


def test_spans_of_characters_become_bio_tags_of_tokens(tmp_path):
    turn = _turn("Fly to San Jose, on May 3.", [("to", "San Jose"), ("date", "May 3")])
    (found,) = _read(tmp_path, [turn])
    assert found.tokens == ("fly", "to", "san", "jose", "on", "may", "3")
    assert found.tags == ("O", "O", "B-to", "I-to", "O", "B-date", "I-date")
    assert found.intent == "Flights:SearchOnewayFlight"
    assert found.part == "validation"


def test_of_slots_that_overlap_the_first_is_kept(tmp_path):
    """A slot that is listed twice, and one that overlaps a dropped one alone, are
    kept.
    """
    spans = [
        ("to", "San Jose"),
        ("to", "San Jose"),
        ("name", "Jose on"),
        ("time", "on May"),
    ]
    (found,) = _read(tmp_path, [_turn("Fly to San Jose on May 3", spans)])
    assert found.tags == ("O", "O", "B-to", "I-to", "B-time", "I-time", "O")


def test_turns_of_the_system_and_turns_without_a_slot_are_left_out(tmp_path):
    said = _turn("Is San Jose right for you?", [("to", "San Jose")], speaker="SYSTEM")
    assert _read(tmp_path, [said, _turn("Yes that is right", [])]) == []


def test_a_turn_about_two_domains_occurs_once_for_each(tmp_path):
    turn = _turn("A table in Napa please", [("city", "Napa")])
    turn["frames"].append({**turn["frames"][0], "service": "Restaurants_1"})
    found = _read(tmp_path, [turn])
    assert [u.intent.split(":")[0] for u in found] == ["Flights", "Restaurants"]
    assert found[0].tokens == found[1].tokens


@pytest.mark.parametrize("text", ["{}", "[1]", "null"])
def test_a_file_that_holds_no_dialogues_is_refused_by_name(tmp_path, text):
    (tmp_path / "dialogues_001.json").write_text(text)
    with refused(r"a list of dialogues in .*dialogues_001", InvalidData):
        list(CONFIG.read(tmp_path))


def test_a_turn_without_its_frames_is_refused_without_its_text(tmp_path):
    turn = _turn("My name is Ada Lovelace", [])
    del turn["frames"]
    with refused("expected user turns with utterance", InvalidData, hides="Ada"):
        _read(tmp_path, [turn])


def test_the_prepared_form_is_one_object_a_line(tmp_path):
    file = tmp_path / "utterances.jsonl"
    line = {
        "tokens": ["to", "napa"],
        "tags": ["O", "B-city"],
        "intent": "Buses:FindBus",
    }
    file.write_text(json.dumps(line) + "\n\n")
    (found,) = CONFIG.read(file)
    assert found == said("to [city : napa]", "Buses:FindBus")
