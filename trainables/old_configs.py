"""Configs from before each entry had fields of its own: those of all entries stood side by side.

A section that was written out then has every one of those fields, which is how it is known. A field
that its entry never read is dropped, whatever its value; so is one at the default of then, which is
the default of now. What is read stays, so the trial is the same. Its id is not: ids on disk are
kept as they were written.
"""

from __future__ import annotations

from typing import Any

from trainables import catalogue
from trainables.config import SHELVES, entry_fields, entry_of

# Every field of the old form that not all entries have, and its default.
_OLD: dict[str, dict[str, Any]] = {
    "data": {"path": None, "num_utterances": None, "seed": 0, "schema_file": None},
    "model": {
        "word_vectors": "hashed",
        "word_buckets": 8_192,
        "word_dim": 50,
        "char_dim": 16,
        "char_filters": 50,
        "char_kernel": 3,
        "encoder": "scratch",
        "hidden_size": None,
        "num_layers": None,
        "num_heads": 12,
        "intermediate_size": 1_200,
        "dropout": 0.1,
        "freeze_embeddings": False,
    },
    "privacy": {
        "max_grad_norm": 1.0,
        "noise_multiplier": 1.0,
        "noise_decay": {"kind": "none", "tau": 0.0},
        "group_scale": "none",
        "max_group_scale": 1.0,
        "noise_calibration": None,
        "sampling": None,
        "neighboring_relation": None,
        "microbatch_size": None,
        "delta": None,
        "unit": "record",
        "max_records_per_group": 1,
        "secure_noise": False,
        "reproducible_noise": False,
        "accountant": None,
    },
    "synthesis": {
        "parse_epochs": None,
        "only": None,
        "other_epochs": None,
        "prompt": "domain",
        "histogram": "dp",
        "histogram_noise_multiplier": 20.0,
        "parses": "parser",
        "parser_epochs": 64,
        "shuffle_pairs": False,
    },
}


def migrated(fields: dict[str, Any]) -> dict[str, Any]:
    """A config as it is written today; one of today's form is returned as it is."""
    sections = {name: part for name, part in fields.items() if name in _OLD}
    return {
        **fields,
        **{name: migrated_part(name, part, whole=fields) for name, part in sections.items()},
    }


def migrated_part(section: str, fields: Any, *, whole: dict[str, Any] | None = None) -> Any:
    """One section of a config as it is written today; `whole` is the config that it is part of."""
    old = _OLD[section]
    if not isinstance(fields, dict) or not old.keys() <= fields.keys():
        return fields
    entry = entry_of(section, whole or {section: fields})
    known = entry_fields(section, entry)
    if known is None:
        return fields
    own = catalogue.entry(SHELVES[section], entry).Config
    # What an entry has got since then it did not read.
    read = {name for name in known if name not in own.later}
    kept = {
        name: value
        for name, value in fields.items()
        if name not in old or (name in read and value != old[name])
    }
    unread = own.model_construct(**kept).unread()
    return {name: value for name, value in kept.items() if name not in unread or name not in old}
