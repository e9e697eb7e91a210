"""Corpora as other tools write them, of the same sentences: a function writes each and
returns the sentences that the file holds, where these are others.
"""

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from tests.lines import write_lines
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


def conllu(path, given):
    """Tags in the last column, and a row for a token of two words."""
    text = ""
    for s in given:
        text += f"# text = {s.text}\n# intent = {s.intent}\n"
        for n, (token, tag) in enumerate(zip(s.tokens, s.tags, strict=True), start=1):
            if n == 1:
                text += "1-2\tof_two" + 8 * "\t_" + "\n"
            text += f"{n}\t{token}\t{token}\tX\t_\t_\t0\t_\t_\tId=1|Slot={tag}\n"
        text += "\n"
    path.write_text(text)


def numbered(path, given):
    """The number of each word in front, as in files of xSID."""
    text = ""
    for s in given:
        text += f"# intent: {s.intent}\n"
        rows = enumerate(zip(s.tokens, s.tags, strict=True), start=1)
        text += "".join(f"{n}\t{token}\tX\t{tag}\n" for n, (token, tag) in rows) + "\n"
    path.write_text(text)


def row_a_token(path, given):
    """The sentence is numbered at its first word alone."""
    rows = ["Sentence #,Word,POS,Tag"]
    for number, s in enumerate(given):
        for n, (token, tag) in enumerate(zip(s.tokens, s.tags, strict=True)):
            rows.append(f"{'' if n else f'Sentence: {number}'},{token},X,{tag}")
    path.write_text("\r\n".join(rows), newline="")


def bio_spans(path, given):
    """As a tagger of Hugging Face gives a span a word."""
    rows = []
    for s in given:
        spans, place = [], 0
        for token, tag in zip(s.tokens, s.tags, strict=True):
            if tag != "O":
                where = {"start": place, "end": place + len(token), "word": token}
                spans.append({"entity": tag, "score": 0.9, **where})
            place += len(token) + 1
        rows.append({"text": s.text, "intent": s.intent, "entities": spans})
    write_lines(path, rows)


def spans_of(s, name, start, end, value=None):
    """Objects of spans with these keys."""
    return [
        {name: slot, start: a, end: b, **({value: s.text[a:b]} if value else {})}
        for a, b, slot in s.slots
    ]


def entity_groups(path, given):
    rows = [
        {
            "text": s.text,
            "intent": s.intent,
            "entities": spans_of(s, "entity_group", "start", "end", "word"),
        }
        for s in given
    ]
    write_lines(path, rows)


def sheet(path, given):
    import datetime

    import pandas as pd

    odd = ["None", "NA", "null", True, datetime.date(2026, 1, 2), 7]
    names = [odd[n] if n < len(odd) else s.intent for n, s in enumerate(given)]
    said = ["None", "NA", "null", "TRUE", "2026-01-02", "7"]
    table = {"Text": [s.text for s in given], "Intent": names}
    pd.DataFrame(table).to_excel(path, index=False)
    return [
        s._replace(intent=said[n]) if n < len(said) else s for n, s in enumerate(given)
    ]


def luis(path, given):
    """Each entity has another one inside, which no tag can hold."""
    rows = []
    for s in given:
        spans = [
            {"entity": name, "startPos": a, "endPos": b - 1}
            | {"children": [{"entity": "inner", "startPos": a, "endPos": a}]}
            for a, b, name in s.slots
        ]
        rows.append({"text": s.text, "intent": s.intent, "entities": spans})
    names = [{"name": name} for name in sorted({s.intent for s in given})]
    document = {"luis_schema_version": "7.0.0", "intents": names, "utterances": rows}
    path.write_text(json.dumps(document))


def clu(path, given):
    rows = []
    for s in given:
        spans = [
            {"category": name, "offset": a, "length": b - a} for a, b, name in s.slots
        ]
        of = {"text": s.text, "intent": s.intent, "language": "en"}
        rows.append({**of, "entities": spans})
    names = [{"category": name} for name in sorted({s.intent for s in given})]
    path.write_text(json.dumps({"assets": {"intents": names, "utterances": rows}}))


def by_intent(given):
    found = {}
    for s in given:
        found.setdefault(s.intent, []).append(s)
    return found


def dialogflow(path, given):
    (path / "intents").mkdir(parents=True)
    (path / "agent.json").write_text('{"description": "", "language": "en"}')
    for intent, some in by_intent(given).items():
        rows = []
        for s in some:
            pieces = [
                {"text": text, "userDefined": name is not None}
                | ({} if name is None else {"alias": name, "meta": f"@{name}"})
                for text, name in s.pieces()
            ]
            rows.append({"id": "1", "data": pieces, "isTemplate": False, "count": 0})
        said = path / "intents" / f"{intent}_usersays_en.json"
        said.write_text(json.dumps(rows))
        described = path / "intents" / f"{intent}.json"
        described.write_text(json.dumps({"name": intent, "responses": []}))


def dialogflow_cx(path, given):
    for intent, some in by_intent(given).items():
        rows = []
        for s in some:
            pieces = [
                {"text": text, "auto": True}
                | ({} if name is None else {"parameterId": name})
                for text, name in s.pieces()
            ]
            rows.append({"id": "1", "parts": pieces, "repeatCount": 1})
        folder = path / "intents" / intent / "trainingPhrases"
        folder.mkdir(parents=True)
        (folder / "en.json").write_text(json.dumps({"trainingPhrases": rows}))
        (folder.parent / f"{intent}.json").write_text(json.dumps({"name": intent}))


def zipped(write):
    """What a function writes, in an archive."""

    def written(path, given):
        inner = Path("packed") / path.stem
        inner.parent.mkdir(exist_ok=True)
        expected = write(inner, given)
        files = sorted(inner.rglob("*")) if inner.is_dir() else [inner]
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in files:
                archive.write(file, file.relative_to("packed"))
        return expected

    return written


def gzipped(write):
    """What a function writes, compressed."""

    def written(path, given):
        inner = Path(path.stem)
        expected = write(inner, given)
        path.write_bytes(gzip.compress(inner.read_bytes()))
        inner.unlink()
        return expected

    return written


def csv_with_json(path, given):
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["text", "intent", "slots"])
        for s in given:
            spans = [[name, a, b] for a, b, name in s.slots]
            table.writerow([s.text, s.intent, json.dumps(spans)])


def templates(given):
    """The samples of sentences, and the sentences that are read of them: the name of a
    slot is its word.
    """
    samples, found = [], []
    for s in given:
        text, tokens, tags = "", [], []
        for piece, name in s.pieces():
            text += piece if name is None else f"{{{name}}}"
            words = piece.split() if name is None else [name]
            tokens += words
            tags += ["O" if name is None else f"B-{name}"] * len(words)
        samples.append(text)
        found.append(Sentence(tokens, tags, s.intent))
    return samples, found


def _models(given, key):
    intents, expected = [], []
    for intent, some in by_intent(given).items():
        samples, found = templates(some)
        slots = sorted({name for s in some for _, _, name in s.slots})
        slots = [{"name": name, "type": "T", "samples": []} for name in slots]
        intents.append({"name": intent, "slots": slots, key: samples})
        expected += found
    return [*intents, {"name": "AMAZON.StopIntent", key: []}], expected


def alexa(path, given):
    intents, expected = _models(given, "samples")
    types = [{"name": "T", "values": [{"name": {"value": "one"}}]}]
    model = {"invocationName": "my tool", "intents": intents, "types": types}
    path.write_text(json.dumps({"interactionModel": {"languageModel": model}}))
    return expected


def lex(path, given):
    intents, expected = _models(given, "sampleUtterances")
    types = [{"name": "T", "enumerationValues": [{"value": "one"}]}]
    bot = {"name": "bot", "intents": intents, "slotTypes": types}
    path.write_text(json.dumps({"metadata": {}, "resource": bot}))
    return expected


def lex_2(path, given):
    intents, expected = _models(given, "sampleUtterances")
    for intent in intents:
        folder = path / "BotLocales" / "en_US" / "Intents" / intent["name"]
        folder.mkdir(parents=True)
        said = [{"utterance": each} for each in intent["sampleUtterances"]] or None
        fields = {"name": intent["name"], "sampleUtterances": said}
        (folder / "Intent.json").write_text(json.dumps(fields))
    (path / "Manifest.json").write_text('{"resourceType": "BOT"}')
    return expected


def prodigy(path, given):
    names = [{"id": name} for name in sorted({s.intent for s in given})]
    rows = [
        {"text": s.text, "options": names, "accept": [s.intent], "answer": "accept"}
        for s in given
    ]
    rows.append(
        {"text": "not this", "options": names, "accept": [], "answer": "reject"}
    )
    write_lines(path, rows)


def clinc(path, given):
    lists = {"train": given[::2], "oos_val": given[1::4], "oos_test": given[3::4]}
    document = {k: [[s.text, s.intent] for s in some] for k, some in lists.items()}
    path.write_text(json.dumps(document))


def numbered_tags(path, given):
    """As Hugging Face's server gives rows, with the names of numbers."""
    tags = ["O", *sorted({tag for s in given for tag in s.tags} - {"O"})]
    intents = sorted({s.intent for s in given})
    types = {
        "tokens": {"feature": {"dtype": "string"}, "_type": "List"},
        "ner_tags": {
            "feature": {"names": tags, "_type": "ClassLabel"},
            "_type": "List",
        },
        "intent": {"names": intents, "_type": "ClassLabel"},
    }
    features = [
        {"feature_idx": n, "name": name, "type": of}
        for n, (name, of) in enumerate(types.items())
    ]
    rows = []
    for n, s in enumerate(given):
        row = {"tokens": s.tokens, "ner_tags": [tags.index(tag) for tag in s.tags]}
        row["intent"] = intents.index(s.intent)
        rows.append({"row_idx": n, "row": row, "truncated_cells": []})
    path.write_text(json.dumps({"features": features, "rows": rows}))


def brat(path, given):
    """Documents of several lines, with a relation."""
    path.mkdir()
    (path / "annotation.conf").write_text("[entities]\n")
    for n in range(4):
        text, lines = "", ["R1\tNear Arg1:T1 Arg2:T1"]
        for s in given[n::4]:
            for a, b, name in s.slots:
                place = f"{len(text) + a} {len(text) + b}"
                lines.append(f"T{len(lines)}\t{name} {place}\t{s.text[a:b]}")
            text += s.text + "\n"
        (path / f"{n}.txt").write_text(text)
        (path / f"{n}.ann").write_text("\n".join(lines) + "\n")


def mtop(path, given):
    rows = [
        f"{n}\tIN:{s.intent}\t{','.join(f'{a}:{b}:SL:{x}' for a, b, x in s.slots)}"
        f"\t{s.text}\tdomain\ten_XX\t[IN:{s.intent} {s.text} ]"
        f"\t{json.dumps({'tokens': s.tokens, 'tokenSpans': []})}\n"
        for n, s in enumerate(given)
    ]
    path.write_text("".join(rows))
    return [
        s._replace(
            intent=f"IN:{s.intent}",
            tags=[x if x == "O" else f"{x[:2]}SL:{x[2:]}" for x in s.tags],
        )
        for s in given
    ]


def schuster(path, given):
    rows = [
        f"{s.intent}\t{','.join(f'{a}:{b}:{x}' for a, b, x in s.slots)}\t{s.text}"
        f"\ten_XX\t{json.dumps({'tokenSpans': [[0, 1]]})}\n"
        for s in given
    ]
    path.write_text("".join(rows))


def lists_of_intents(path, given):
    also = [
        [s.intent, "also"] if n % 3 == 0 else [s.intent] for n, s in enumerate(given)
    ]
    rows = [
        {"text": s.text, "intents": names, "slots": s.slots}
        for s, names in zip(given, also, strict=True)
    ]
    write_lines(path, rows)
    pairs = zip(given, also, strict=True)
    return [s._replace(intent="#".join(names)) for s, names in pairs]


def yaml_names(path, given):
    names = dict(zip(sorted({s.intent for s in given}), _WRITTEN, strict=False))
    found = [s._replace(intent=names.get(s.intent, s.intent)) for s in given]
    rasa(path, found)
    return found


_WRITTEN = ("007", "0x1F", "1_000", "yes", "~", "12:30", "1e3")


def marked_column(path, given):
    rows = ["example,intent"]
    for s in given:
        marks = (t if name is None else f"[{t}]({name})" for t, name in s.pieces())
        rows.append(f"{''.join(marks)},{s.intent}")
    path.write_text("\n".join(rows))


def nested(path, given):
    rows = [
        {
            "user": {"text": s.text},
            "annotation": {"intent": {"name": s.intent}},
            "labels": [
                {"slot": name, "span": {"from": a, "to": b}} for a, b, name in s.slots
            ],
        }
        for s in given
    ]
    write_lines(path, rows)


def positions_of_words(path, given):
    """Start and the last one count words and signs, as in some corpora."""
    rows, found = [], []
    for s in given:
        if any(s.text.count(s.text[a:b]) > 1 for a, b, _ in s.slots):
            continue
        spans = [
            {"entity": name, "start": 40 + n, "stop": 40 + n, "text": s.text[a:b]}
            for n, (a, b, name) in enumerate(s.slots)
        ]
        rows.append({"text": s.text, "intent": s.intent, "entities": spans})
        found.append(s)
    path.write_text(json.dumps({"sentences": rows}))
    return found


class Corpus(NamedTuple):
    """`written` makes the file; `labels` are those that it holds; `options` are given
    at once; where `is_hinted`, those that a first reading prints are added.
    """

    write: Callable
    labels: str = "intents and slots"
    options: tuple[str, ...] = ()
    is_hinted: bool = False


CORPORA = {
    "doccano.jsonl": Corpus(doccano),
    "label_studio.json": Corpus(label_studio),
    "snips.json": Corpus(snips),
    "spacy.json": Corpus(spacy),
    "fasttext.txt": Corpus(fasttext, "intents"),
    "excel.csv": Corpus(excel_csv, "intents"),
    "utf_16.tsv": Corpus(utf_16),
    "hugging_face": Corpus(hugging_face),
    "data.parquet": Corpus(parquet),
    "lower_bio.txt": Corpus(lower_bio, "slots"),
    "nlu.yml": Corpus(rasa),
}
SHAPES = {
    "universal.conllu": Corpus(conllu),
    "numbered.conll": Corpus(numbered),
    "row_a_token.csv": Corpus(row_a_token, "slots"),
    "bio_spans.jsonl": Corpus(bio_spans),
    "entity_groups.jsonl": Corpus(entity_groups),
    "sheet.xlsx": Corpus(sheet, "intents"),
    "luis.json": Corpus(luis),
    "clu.json": Corpus(clu),
    "dialogflow": Corpus(dialogflow),
    "dialogflow.zip": Corpus(zipped(dialogflow)),
    "dialogflow_cx.zip": Corpus(zipped(dialogflow_cx)),
    "lex.json": Corpus(lex),
    "lex_2.zip": Corpus(zipped(lex_2)),
    "alexa.json": Corpus(alexa),
    "prodigy.jsonl": Corpus(prodigy, "intents"),
    "clinc.json": Corpus(clinc, "intents"),
    "rows.json": Corpus(numbered_tags),
    "brat": Corpus(brat, "slots"),
    "table.csv.gz": Corpus(gzipped(csv_with_json)),
    "lines.jsonl.zip": Corpus(zipped(doccano)),
    "mtop.txt": Corpus(mtop, is_hinted=True),
    "schuster.tsv": Corpus(schuster, is_hinted=True),
    "lists.jsonl": Corpus(lists_of_intents, is_hinted=True),
    "names.yml": Corpus(yaml_names),
    "marked.csv": Corpus(marked_column, is_hinted=True),
    "nested.jsonl": Corpus(nested, is_hinted=True),
    "positions.json": Corpus(positions_of_words),
}
