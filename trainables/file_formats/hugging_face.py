"""Hugging Face `datasets`: a folder of `save_to_disk`, of one data set or one a split.

Read with Arrow alone. A column of class labels is read by its names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from trainables.data.records import NO_INTENT, Utterance
from trainables.errors import InvalidData, one_line, words_of
from trainables.file_formats._fields import record_of
from trainables.file_formats._record import Options, Record
from trainables.files import read_json

LACKS: frozenset[str] = frozenset()
SUFFIX = ""
_INFO, _SPLITS = "dataset_info.json", "dataset_dict.json"
_ROWS = 1_000
_FILE = "data-00000-of-00001.arrow"


def recognizes(path: Path) -> bool:
    """Whether it is a folder with the file of a data set or of its splits."""
    return any((path / name).is_file() for name in (_INFO, _SPLITS))


def read(path: Path, *, options: Options) -> Iterator[Record | InvalidData]:
    """The rows of all splits.

    Raises: InvalidData for an incomplete folder.
    """
    if not (path / _SPLITS).is_file():
        yield from _rows(path, None, options)
        return
    splits = read_json(path / _SPLITS)
    names = splits.get("splits") if isinstance(splits, dict) else None
    if not isinstance(names, list) or not all(_is_plain(name) for name in names):
        raise InvalidData(f"expected the names of splits in {path / _SPLITS}")
    for name in names:
        yield from _rows(path / name, name, options)


def write(path: Path, utterances: Iterable[Utterance], *, slots: bool) -> None:
    """Write a new folder with one data set a part."""
    path.mkdir()
    by_part: dict[str, list[dict[str, Any]]] = {}
    for utterance in utterances:
        row = {
            "tokens": list(utterance.tokens),
            "tags": list(utterance.tags) if slots else None,
            "intent": None if utterance.intent == NO_INTENT else utterance.intent,
            "group": utterance.group,
        }
        by_part.setdefault(utterance.part, []).append(row)
    (path / _SPLITS).write_text(json.dumps({"splits": list(by_part)}), encoding="utf-8")
    for part, rows in by_part.items():
        _write_rows(path / part, rows)


def _rows(folder: Path, split: str | None, options: Options) -> Iterator[Record | InvalidData]:
    classes = _classes(folder)
    number = 0
    for file in _files(folder):
        for row in _values(file):
            number += 1
            where = f"{folder} row {number}"
            fields = {name: _class_name(value, classes.get(name)) for name, value in row.items()}
            if split is not None and options.part is None:
                fields["part"] = split
            yield record_of(fields, where=where, options=options)


def _values(file: Path) -> Iterator[dict[str, Any]]:
    import pyarrow

    try:
        with pyarrow.memory_map(str(file)) as source, pyarrow.ipc.open_stream(source) as batches:
            for batch in batches:
                for start in range(0, batch.num_rows, _ROWS):
                    yield from batch.slice(start, _ROWS).to_pylist()
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise InvalidData(
            f"expected an Arrow stream in {file}, got {one_line(words_of(error), characters=300)}"
        ) from None


def _files(folder: Path) -> list[Path]:
    """The files of a data set in their order."""
    state = read_json(folder / "state.json") if (folder / "state.json").is_file() else {}
    entries = state.get("_data_files") if isinstance(state, dict) else None
    given = entries if isinstance(entries, list) else []
    names: list[Any] = [e.get("filename") if isinstance(e, dict) else None for e in given]
    if not names:
        names = sorted(file.name for file in folder.glob("*.arrow"))
    if not names or not all(_is_plain(name) for name in names):
        raise InvalidData(f"expected Arrow files in {folder}, got none")
    return [folder / str(name) for name in names]


def _classes(folder: Path) -> dict[str, list[str]]:
    """The names of class labels by column, of single ones and of lists."""
    info = read_json(folder / _INFO) if (folder / _INFO).is_file() else {}
    features = info.get("features") if isinstance(info, dict) else None
    found = {}
    for column, feature in (features if isinstance(features, dict) else {}).items():
        inner = feature[0] if isinstance(feature, list) and feature else feature
        if isinstance(inner, dict) and isinstance(inner.get("feature"), dict):
            inner = inner["feature"]
        names = inner.get("names") if isinstance(inner, dict) else None
        if isinstance(names, list):
            found[column] = [str(name) for name in names]
    return found


def _class_name(value: Any, names: list[str] | None) -> Any:
    if names is None:
        return value
    if isinstance(value, list):
        return [_class_name(each, names) for each in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return names[value] if 0 <= value < len(names) else None
    return value


def _is_plain(name: Any) -> bool:
    """Whether it is a file's name and no path out of the folder."""
    return isinstance(name, str) and name not in ("", ".", "..") and Path(name).name == name


def _write_rows(folder: Path, rows: list[dict[str, Any]]) -> None:
    import pyarrow

    folder.mkdir()
    words, word = pyarrow.list_(pyarrow.string()), pyarrow.string()
    types = {"tokens": words, "tags": words, "intent": word, "group": word}
    present = {name for row in rows for name, value in row.items() if value is not None}
    schema = pyarrow.schema([(name, type_) for name, type_ in types.items() if name in present])
    text = {"dtype": "string", "_type": "Value"}
    features = {
        name: {"feature": text, "_type": "Sequence"} if types[name] is words else text
        for name in schema.names
    }
    table = pyarrow.Table.from_pylist(rows, schema=schema)
    with (
        pyarrow.OSFile(str(folder / _FILE), "wb") as file,
        pyarrow.ipc.new_stream(file, schema) as out,
    ):
        out.write_table(table)
    state: dict[str, Any] = {
        "_data_files": [{"filename": _FILE}],
        "_fingerprint": "0" * 16,
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": folder.name,
    }
    (folder / "state.json").write_text(json.dumps(state, indent=2), encoding="utf-8")
    (folder / _INFO).write_text(json.dumps({"features": features}, indent=2), encoding="utf-8")
