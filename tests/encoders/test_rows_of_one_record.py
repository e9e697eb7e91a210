"""Cached rows of a record are a function of that record alone: another record in the
corpus changes the batches in which they are computed, and not the rows. Also where
products are in bfloat16.
"""

import json
from itertools import islice

import numpy as np
import pytest

from tests.lines import write_lines
from trainables.config.trial import data_config, parse
from trainables.data.corpus import open_corpus

NUMBER = 160


def rows_of(folder, name, records):
    """Every kind of rows of a corpus, in the order of its records."""
    write_lines(folder / f"{name}.jsonl", records)
    data = {"name": "json_lines", "path": f"{name}.jsonl", "schema_file": "schema.json"}
    model = {"name": "features", "encoder": "dialogues"}
    config = parse({"data": data, "model": model, "engine": "sgd"})
    places = {"cache_dir": folder / "cache"}
    corpus = open_corpus(config.data, data_dir=folder, **places)
    built = config.model.build(schema=corpus.schema, seed=0)
    loader = built.loader(corpus, **places)
    batch = loader.batch(np.arange(corpus.num_records))
    return {name: rows.float().numpy() for name, rows in batch.inputs.items()}


@pytest.fixture
def records(tmp_path):
    made = data_config(name="communication").read(None)
    found = [
        {"tokens": u.tokens, "tags": u.tags, "intent": u.intent}
        for u in islice(made, NUMBER)
    ]
    schema = {
        "intents": sorted({r["intent"] for r in found}),
        "slots": sorted({t[2:] for r in found for t in r["tags"] if t != "O"}),
    }
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    return found


def test_a_record_less_moves_no_row_of_the_others(records, tmp_path):
    whole = rows_of(tmp_path, "whole", records)
    fewer = rows_of(tmp_path, "fewer", records[1:])
    first = len(records[0]["tokens"])
    for name, rows in fewer.items():
        skipped = first if name.startswith(("token", "tag")) else 1
        moved = np.abs(whole[name][skipped:] - rows).max()
        assert moved <= 1e-6, name
