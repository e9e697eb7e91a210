"""Corpora of utterances with programs: records, files and refusals."""

import gzip
import json
import os
import zipfile
from pathlib import Path

import pytest

from tests.lines import write_lines
from tests.refusals import refused
from trainables.config.trial import data_config, parse
from trainables.data.datasets.treedst import TreeDst
from trainables.data.pairs import open_pairs, pair_files, read_pairs
from trainables.errors import InvalidData

DATA = Path(os.environ.get("SWEEP_DATA_DIR", "data"))
SECRET = "xylophone"  # stands for private text: no message may contain it
PAIR = {"utterance": "hello there", "lispress": "(Yield (Now))", "dialogue_id": "d1"}


def real(name):
    if not (DATA / name).exists():
        pytest.skip(f"{name} is not in SWEEP_DATA_DIR={DATA}")
    return DATA / name


def lines(path, *rows):
    return write_lines(path, rows)


def dialogues(path, *turns):
    line = json.dumps(
        {
            "dialogue_id": "d",
            "turns": [
                {
                    "user_utterance": {"tokens": text.split()},
                    "agent_utterance": {"tokens": agent.split()},
                    "lispress": program,
                    "skip": False,
                }
                for text, program, agent in turns
            ],
        }
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("valid.jsonl", line + "\n")
    return path


def open_file(path, name="pair_lines", **fields):
    return open_pairs(
        data_config(name=name, path=str(path), **fields), data_dir=Path("nowhere")
    )


@pytest.mark.slow  # reads 26,000 programs
def test_smcalflow_of_the_data_directory():
    place = real("smcalflow2")
    found = open_pairs(data_config(name="smcalflow"), data_dir=place.parent)
    assert (found.parts.count("train"), found.parts.count("validation")) == (
        12_271,
        14_751,
    )
    assert found.has_programs
    assert found.public
    counted = list(read_pairs(place / "pairs_valid.jsonl.gz"))
    assert len(counted) == 13_496
    # The pairs are the official file's turns that count, field by field.
    official = {(u, p) for u, p in zip(found.utterances, found.programs, strict=True)}
    assert all((pair.utterance, pair.program) in official for pair in counted)


def test_treedst_of_the_data_directory_has_domains():
    real("treedst")
    found = open_pairs(data_config(name="treedst"), data_dir=DATA)
    assert (found.parts.count("validation"), found.parts.count("test")) == (
        3_038,
        3_155,
    )
    assert set(found.domains) == set(TreeDst.domains)


def test_official_dialogues_are_read_before_pairs_of_the_same_part(tmp_path):
    lines(tmp_path / "pairs_train_part.jsonl", PAIR)
    lines(tmp_path / "pairs_valid.jsonl", PAIR)
    packed = tmp_path / "valid.dataflow_dialogues.jsonl.zip"
    dialogues(packed, ("a b", "(f)", "done ."), ("c", "(g)", ""))
    assert [file.name for file in pair_files(tmp_path)] == [
        "pairs_train_part.jsonl",
        packed.name,
    ]
    found = open_file(tmp_path, "smcalflow")
    assert found.utterances == ("hello there", "a b", "c")
    assert found.parts == ("train", "validation", "validation")
    assert found.programs[1:] == ("(f)", "(g)")
    assert [pair.dialogue for pair in found.pairs] == ["d1", "d", "d"]


def test_packing_changes_nothing(tmp_path):
    plain = lines(tmp_path / "a.jsonl", PAIR, PAIR)
    packed = tmp_path / "b.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert open_file(plain).fingerprint == open_file(packed).fingerprint


def test_the_fingerprint_sees_every_field(tmp_path):
    variants = [
        PAIR,
        {**PAIR, "utterance": "hello you"},
        {**PAIR, "lispress": "(Now)"},
        {**PAIR, "dialogue_id": "d2"},
        {**PAIR, "part": "test"},
        {**PAIR, "domain": "hotel"},
    ]
    marks = {
        open_file(lines(tmp_path / "x.jsonl", row)).fingerprint for row in variants
    }
    assert len(marks) == len(variants)


def test_a_corpus_without_programs_says_so(tmp_path):
    found = open_file(lines(tmp_path / "x.jsonl", {"utterance": "only words"}))
    assert found.programs == ("",)
    assert not found.has_programs
    assert not found.public


def test_a_subset_is_the_seeds(tmp_path):
    rows = [{**PAIR, "utterance": f"word {index}"} for index in range(60)]
    path = lines(tmp_path / "x.jsonl", *rows)
    first = open_file(path, max_records=20)
    assert len(first) == 20
    assert first.fingerprint == open_file(path, max_records=20).fingerprint
    assert (
        first.fingerprint != open_file(path, max_records=20, split_seed=1).fingerprint
    )
    with refused("at most the number of records, got 61") as refusal:
        open_file(path, max_records=61)
    assert "60" not in str(refusal.value), "plans and reports keep it"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (f'{{"utterance": "{SECRET}"', "expected a JSON object in"),
        (f'["{SECRET}"]', "expected a JSON object in"),
        (json.dumps({"utterance": 3, "lispress": f"({SECRET})"}), "expected utterance"),
        (
            json.dumps({"utterance": "  ", "lispress": f"({SECRET})"}),
            "expected utterance",
        ),
        (
            json.dumps({"utterance": SECRET, "lispress": f"({SECRET}"}),
            "expected the end of 1 open",
        ),
        # Brackets alone are no program: a trial would fail where it is measured, at its
        # end.
        (
            json.dumps({"utterance": SECRET, "lispress": f'("{SECRET}" b)'}),
            "expected a call to",
        ),
        (
            json.dumps({"utterance": SECRET, "lispress": f"({SECRET} :k)"}),
            "expected a value after",
        ),
        (json.dumps({"utterance": SECRET, "lispress": 3}), "expected lispress"),
        (json.dumps({**PAIR, "utterance": SECRET, "part": "dev"}), "expected part"),
        (json.dumps({**PAIR, "utterance": SECRET, "domain": ""}), "expected domain"),
        (json.dumps({"turns": [SECRET]}), "expected turns"),
        (json.dumps({"turns": SECRET}), "expected turns"),
        ("[" * 100_000, "expected a JSON object in"),
    ],
)
def test_a_damaged_line_is_named_and_not_quoted(tmp_path, line, problem):
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(PAIR) + "\n" + line + "\n")
    with refused(problem, InvalidData) as caught:
        open_file(path)
    assert "line 2" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_program_is_checked_once_in_a_file(tmp_path, monkeypatch):
    checked = []
    monkeypatch.setattr("trainables.data.pairs.graph", checked.append)
    other = {**PAIR, "lispress": "(Yield (Then))"}
    list(
        read_pairs(
            lines(tmp_path / "x.jsonl", PAIR, other, PAIR, {"utterance": "no program"})
        )
    )
    assert checked == [PAIR["lispress"], other["lispress"]]


def test_damaged_files_are_named(tmp_path):
    cases = {
        "empty.jsonl": b"",
        "cut.jsonl.gz": gzip.compress(json.dumps(PAIR).encode())[:30],
        "bytes.jsonl": b'{"utterance": "\xff"}\n',
        "two.zip": None,
    }
    for name, content in cases.items():
        path = tmp_path / name
        if content is None:
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("a", "x")
                archive.writestr("b", "y")
        else:
            path.write_bytes(content)
        with refused(name, InvalidData):
            open_file(path)
    with refused("nothing there", InvalidData):
        open_file(tmp_path / "nope")
    with refused("expected files named", InvalidData):
        open_file(tmp_path)


def test_each_kind_of_corpus_is_refused_where_the_other_is_needed():
    with refused(r"data.name to be one of atis.* got 'smcalflow'"):
        parse({"data": {"name": "smcalflow"}})
    with refused(r"one of pair_lines, .* got 'atis'"):
        open_pairs(data_config(name="atis"), data_dir=Path("nowhere"))
