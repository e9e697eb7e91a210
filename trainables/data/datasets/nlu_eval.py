"""NLU-EVAL."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from trainables.data.bio import parse_annotation
from trainables.data.configs import ShippedFrames
from trainables.data.formats import Options, reading
from trainables.data.records import Part, Utterance
from trainables.errors import InvalidData
from trainables.io.files import file_lines, without_problems

_COLUMNS = ("scenario", "intent", "answer_annotation")
_NAMED = Options(header=True)


class NluEval(ShippedFrames):
    """NLU-EVAL: requests to a home assistant (Liu et al., IWSDS 2019), in either of its
    two files.

    The curated 10 folds (11,036 utterances, one file with a column `fold`) or the
    complete annotated file (25,716 lines). An intent is scenario_intent; slots are
    marked `[slot : value]`.
    """

    licence = "CC BY 4.0"
    source = (
        "https://github.com/xliuhw/NLU-Evaluation-Data, its file"
        " AnnotatedData/NLU-Data-Home-Domain-Annotated-All.csv"
    )
    place = "nlu_eval/nlu_eval_10fold.csv"

    name: Literal["nlu_eval"] = "nlu_eval"

    def files(self, path: Path) -> tuple[Path, ...]:
        """As `DataConfig.files`."""
        if not path.is_file():
            raise InvalidData(
                f"expected the NLU-EVAL file in {path}, got none (see data.path,"
                f" SWEEP_DATA_DIR)"
            )
        return (path,)

    def read(self, path: Path) -> Iterator[Utterance]:
        """All utterances; of the 10 folds, 9 is validation and 10 is test in the
        official split.

        Lines whose `status` starts with IRR (irrelevant answers) and lines without an
        answer are left out, as the source recommends. Raises: InvalidData with file and
        line for another format.
        """
        found = False
        [file] = self.files(path)
        _, head = next(without_problems(file_lines(file)), ("", ""))
        if missing := [name for name in _COLUMNS if name not in head.split(";")]:
            raise InvalidData(
                f"expected the column {missing[0]} in {path} line 1, got none"
            )
        rows = reading.rows([reading.File(file, "table", options=_NAMED)])
        for where, fields, _ in without_problems(rows):
            scenario, intent, text = (fields[name].strip() for name in _COLUMNS)
            if fields.get("status", "").startswith("IRR") or text in (
                "",
                "null",
                "NaN",
            ):
                continue
            if not scenario or not intent:
                raise InvalidData(f"expected a scenario and an intent in {where}")
            tokens, tags = parse_annotation(text, where=where)
            yield Utterance(tokens, tags, f"{scenario}_{intent}", _part(fields, where))
            found = True
        if not found:
            raise InvalidData(f"expected utterances in {path}, got none")


def _part(fields: dict[str, str], where: str) -> Part:
    fold = fields.get("fold", "1").strip()
    if not fold.isdecimal() or not 1 <= int(fold) <= 10:
        raise InvalidData(f"expected fold from 1 to 10 in {where}")
    parts: dict[int, Part] = {9: "validation", 10: "test"}
    return parts.get(int(fold), "train")
