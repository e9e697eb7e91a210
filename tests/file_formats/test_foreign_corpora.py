"""Corpora as the web's tools write them: each becomes, through `sweep init`, exactly
the records that an independent reading of the same sentences gives, and a plan of a
sweep. Where the first reading is refused, the line that it prints is the one that reads
the file.
"""

import json
import re
import shlex
from pathlib import Path

import pytest

from sweep import cli
from tests.file_formats.foreign import CORPORA, SHAPES, sentences
from tests.lines import read_lines

ALL = CORPORA | SHAPES


@pytest.fixture(autouse=True)
def _place(tmp_path, monkeypatch):
    monkeypatch.setenv("SWEEP_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def run(capsys, *words):
    code = cli.run(words)
    found = capsys.readouterr()
    return code, found.out, found.err


def options_of(name, capsys):
    """Those of a corpus, and those that its first reading prints."""
    corpus = ALL[name]
    if not corpus.is_hinted:
        return corpus.options
    _, out, err = run(capsys, "data", "check", name, *corpus.options)
    line = re.search(r"\(try (.*?)\)(?: \(`|\.?$)|(--marks \w+) reads", out + err, re.M)
    return (*corpus.options, *shlex.split(line[1] or line[2]))


@pytest.mark.parametrize("name", ALL)
def test_a_foreign_corpus_is_read_as_its_sentences_and_planned(name, tmp_path, capsys):
    write, labels, *_ = ALL[name]
    given = sentences()
    given = write(tmp_path / name, given) or given
    options = options_of(name, capsys)
    words = ("init", name, "--to", "mine", "--keep-rare-labels", *options, "--json")
    code, out, err = run(capsys, *words)
    assert code == 0, err
    facts = json.loads(out)
    expected = {
        s.text: (
            s.tokens,
            s.tags if "slots" in labels else None,
            s.intent if "intents" in labels else None,
        )
        for s in given
    }
    rows = read_lines(Path("mine/utterances.jsonl"))
    found = {
        " ".join(r["tokens"]): (r["tokens"], r.get("tags"), r.get("intent"))
        for r in rows
    }
    assert found == expected
    with_slot = sum(set(s.tags) != {"O"} for s in given) if "slots" in labels else 0
    assert (facts["num_read"], facts["num_with_slot"]) == (len(given), with_slot)
    assert facts["num_with_intent"] == (len(given) if "intents" in labels else 0)
    assert facts["num_invalid"] == facts["num_extended"] == facts["num_trimmed"] == 0
    assert facts["overlooked"] == {}
    assert (facts["encoding"] == "") == (name in _BINARY)
    if name == "hugging_face":
        assert facts["parts"] == {"train": 40, "validation": 40, "test": 40}
        assert facts["parts_because"] == "as in the data"
    if name == "luis.json":
        assert facts["notes"] == {
            "entities inside of others (inner)": sum(len(s.slots) for s in given)
        }
    code, out, err = run(capsys, "plan", "mine/space.yaml")
    assert code == 0, err
    assert "mine: 4 trials to run, 0 refused" in out


_BINARY = ("hugging_face", "data.parquet", "sheet.xlsx")


@pytest.mark.slow  # it trains four trials
@pytest.mark.parametrize("name", ALL)
def test_a_foreign_corpus_becomes_a_finished_sweep(name, tmp_path, capsys):
    ALL[name].write(tmp_path / name, sentences(400))
    options = options_of(name, capsys)
    assert cli.run(("init", name, "--to", "mine", *options)) == 0
    short = ("resources.executor=local", "privacy.sampling=full", "training.steps=10")
    words = [
        word
        for each in (*short, "training.evaluate_every=10")
        for word in ("--set", each)
    ]
    assert cli.run(("run", "mine/space.yaml", "--tracking", "none", *words)) == 0
    assert re.search(
        "^at epsilon ≤ 8 use dp-.*\nmine: 4 done", capsys.readouterr().out, re.M
    )
