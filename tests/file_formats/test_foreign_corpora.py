"""Corpora as the web's tools write them: each becomes, through `sweep init`, exactly
the records that an independent reading of the same sentences gives.
"""

import csv
import io
import json
import re
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pytest

from sweep import cli
from tests.lines import read_lines, write_lines
from trainables.config.trial import data_config


class Sentence(NamedTuple):
    tokens: list[str]
    tags: list[str]
    intent: str

    @property
    def text(self):
        return " ".join(self.tokens)

    @property
    def slots(self):
        """(first character, one past the last, name)."""
        found = []
        place = 0
        for token, tag in zip(self.tokens, self.tags, strict=True):
            end = place + len(token)
            if tag.startswith("B-"):
                found.append((place, end, tag[2:]))
            elif tag.startswith("I-"):
                found[-1] = (found[-1][0], end, tag[2:])
            place = end + 1
        return found

    def pieces(self):
        """The text in pieces with the names of their slots."""
        found = []
        done = 0
        for start, end, name in self.slots:
            found += [(self.text[done:start], None), (self.text[start:end], name)]
            done = end
        return [
            (text, name) for text, name in [*found, (self.text[done:], None)] if text
        ]


def sentences(number=120):
    """Made ones: of no slot, of one, of several."""
    config = data_config(name="communication")
    made = config.read(None)
    return [
        Sentence(list(u.tokens), list(u.tags), u.intent) for u in islice(made, number)
    ]


def doccano(path, given):
    rows = [
        {"id": n, "text": s.text, "cats": [s.intent], "label": s.slots, "Comments": []}
        for n, s in enumerate(given)
    ]
    write_lines(path, rows)


def label_studio(path, given):
    tasks = []
    for s in given:
        values = [
            {
                "type": "labels",
                "from_name": "label",
                "to_name": "text",
                "value": {"start": a, "end": b, "text": s.text[a:b], "labels": [name]},
            }
            for a, b, name in s.slots
        ]
        chosen = {"choices": [s.intent]}
        values.append({"type": "choices", "from_name": "intent", "value": chosen})
        done = {"id": 1, "was_cancelled": False, "result": values}
        tasks.append(
            {"id": len(tasks), "data": {"text": s.text}, "annotations": [done]}
        )
    path.write_text(json.dumps(tasks))


def snips(path, given):
    intents = {}
    for s in given:
        pieces = [
            {"text": text}
            | ({} if name is None else {"entity": "any", "slot_name": name})
            for text, name in s.pieces()
        ]
        intents.setdefault(s.intent, {"utterances": []})["utterances"].append(
            {"data": pieces}
        )
    path.write_text(json.dumps({"intents": intents, "entities": {}, "language": "en"}))


def spacy(path, given):
    names = {s.intent for s in given}
    path.write_text(
        json.dumps(
            [
                [
                    s.text,
                    {
                        "entities": s.slots,
                        "cats": {n: float(n == s.intent) for n in names},
                    },
                ]
                for s in given
            ]
        )
    )


def fasttext(path, given):
    path.write_text("".join(f"__label__{s.intent} {s.text}\n" for s in given))


def excel_csv(path, given):
    """As a German Excel saves a table: semicolons, a byte order mark, German names."""
    rows = "".join(f'{n};"{s.text}";{s.intent}\r\n' for n, s in enumerate(given))
    path.write_text("\ufeffNr;Äußerung;Absicht\r\n" + rows, newline="")


def utf_16(path, given):
    """What Excel calls Unicode text, with what pandas makes of lists."""
    out = io.StringIO()
    table = csv.writer(out, delimiter="\t", lineterminator="\r\n")
    table.writerow(["text", "intent", "entities"])
    for s in given:
        spans = [{"start": a, "end": b, "label": name} for a, b, name in s.slots]
        table.writerow([s.text, s.intent, repr(spans)])
    path.write_bytes(out.getvalue().encode("utf-16"))


def hugging_face(path, given):
    """A folder of the Hub: Parquet with class labels by number."""
    import pyarrow
    import pyarrow.parquet

    tags = ["O", *sorted({tag for s in given for tag in s.tags} - {"O"})]
    intents = sorted({s.intent for s in given})
    features = {
        "ner_tags": {
            "feature": {"names": tags, "_type": "ClassLabel"},
            "_type": "Sequence",
        },
        "label": {"names": intents, "_type": "ClassLabel"},
    }
    (path / "data").mkdir(parents=True)
    (path / "README.md").write_text("# a data set")
    for n, part in enumerate(("train", "validation", "test")):
        of = given[n::3]
        table = pyarrow.table(
            {
                "tokens": [s.tokens for s in of],
                "ner_tags": [[tags.index(tag) for tag in s.tags] for s in of],
                "label": [intents.index(s.intent) for s in of],
            }
        ).replace_schema_metadata(
            {"huggingface": json.dumps({"info": {"features": features}})}
        )
        pyarrow.parquet.write_table(
            table, path / "data" / f"{part}-00000-of-00001.parquet"
        )


def parquet(path, given):
    import pandas as pd

    spans = [
        [{"start": a, "end": b, "label": name} for a, b, name in s.slots] for s in given
    ]
    columns = {"text": [s.text for s in given], "intent": [s.intent for s in given]}
    pd.DataFrame({**columns, "entities": spans}).to_parquet(path)


def lower_bio(path, given):
    path.write_text(
        "".join(
            "".join(
                f"{token} {tag[:1].lower()}{tag[1:]}\n"
                for token, tag in zip(s.tokens, s.tags, strict=True)
            )
            + "\n"
            for s in given
        )
    )


def rasa(path, given):
    text = 'version: "3.1"\nnlu:\n'
    for intent in sorted({s.intent for s in given}):
        text += f"- intent: {intent}\n  examples: |\n"
        for s in (each for each in given if each.intent == intent):
            marked = "".join(
                t if name is None else f"[{t}]({name})" for t, name in s.pieces()
            )
            text += f"    - {marked}\n"
    path.write_text(text)


CORPORA = {
    "doccano.jsonl": (doccano, "intents and slots"),
    "label_studio.json": (label_studio, "intents and slots"),
    "snips.json": (snips, "intents and slots"),
    "spacy.json": (spacy, "intents and slots"),
    "fasttext.txt": (fasttext, "intents"),
    "excel.csv": (excel_csv, "intents"),
    "utf_16.tsv": (utf_16, "intents and slots"),
    "hugging_face": (hugging_face, "intents and slots"),
    "data.parquet": (parquet, "intents and slots"),
    "lower_bio.txt": (lower_bio, "slots"),
    "nlu.yml": (rasa, "intents and slots"),
}


@pytest.fixture(autouse=True)
def _place(tmp_path, monkeypatch):
    monkeypatch.setenv("SWEEP_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", CORPORA)
def test_a_foreign_corpus_is_read_as_its_sentences(name, tmp_path, capsys):
    write, labels = CORPORA[name]
    given = sentences()
    write(tmp_path / name, given)
    assert cli.run(("init", name, "--to", "mine", "--keep-rare-labels", "--json")) == 0
    facts = json.loads(capsys.readouterr().out)
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
    assert (facts["encoding"] == "") == (name in ("hugging_face", "data.parquet"))
    if name == "hugging_face":
        assert facts["parts"] == {"train": 40, "validation": 40, "test": 40}
        assert facts["parts_because"] == "as in the data"


@pytest.mark.slow  # it trains four trials
@pytest.mark.parametrize("name", CORPORA)
def test_a_foreign_corpus_becomes_a_finished_sweep(name, tmp_path, capsys):
    CORPORA[name][0](tmp_path / name, sentences(400))
    assert cli.run(("init", name, "--to", "mine")) == 0
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
