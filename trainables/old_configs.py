"""Migration of configs in the old format, in which a section had the fields of all entries.

An old section is recognised because it has all of those fields. A field that its entry never reads
is dropped, and so is one at today's default. The trial stays the same. Its id
changes, so ids on disk are kept as they were written.
"""

from __future__ import annotations

from typing import Any

from trainables import catalogue
from trainables.config import SHELVES, entry_fields, entry_of

# Every field of the old form that not all entries have, and its default of today.
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
        "secure_noise": True,
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


def migrate(fields: dict[str, Any]) -> dict[str, Any]:
    """A config in the current format; one already in it is returned unchanged."""
    sections = {name: part for name, part in fields.items() if name in _OLD}
    return {
        **fields,
        **{name: migrate_part(name, part, whole=fields) for name, part in sections.items()},
    }


def migrate_part(section: str, fields: Any, *, whole: dict[str, Any] | None = None) -> Any:
    """One section in the current format; `whole` is its config."""
    old = _OLD[section]
    if not isinstance(fields, dict) or not old.keys() <= fields.keys():
        return fields
    entry = entry_of(section, whole or {section: fields})
    known = entry_fields(section, entry)
    if known is None:
        return fields
    own = catalogue.entry(SHELVES[section], entry).Config
    # Fields added to an entry since then were not read.
    read = {name for name in known if name not in own.later}
    kept = {
        name: value
        for name, value in fields.items()
        if name not in old or (name in read and value != old[name])
    }
    unread = own.model_construct(**kept).unread()
    return {name: value for name, value in kept.items() if name not in unread or name not in old}
