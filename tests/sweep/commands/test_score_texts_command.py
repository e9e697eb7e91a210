import gzip
import json
import zipfile

import pytest

SECRET = "xylophone"
ROWS = [
    {
        "utterance": f"meeting {i % 5} with ann {i}",
        "lispress": f'(Yield (f{i % 3} "{i}"))',
    }
    for i in range(30)
]


@pytest.fixture
def files(tmp_path):
    def write(name, rows):
        path = tmp_path / name
        text = "".join(
            (row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows
        )
        data = text.encode()
        path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        return str(path)

    return write


def test_generated_text_with_its_ceilings(files, line):
    human, synthetic = files("h.jsonl.gz", ROWS), files("s.jsonl", ROWS[:20])
    found = line.facts("score", "--human", human, "--synthetic", synthetic)
    assert found["num_compared"] == 20
    assert found["function_type_overlap"] == 1
    assert found["ngram_similarity"] > 0
    assert found["mauve_states"] is None, "20 texts are too few"
    assert "chi_square_human_ceiling" in found
    out = line.says(
        "score", "--human", human, "--synthetic", synthetic, "--mauve-texts", "0"
    )
    assert "human ceiling" in out
    assert "mauve" not in out


def test_programs_that_some_records_lack(files, line):
    """An absent, null or empty program is unknown, which is no malformed one."""
    some = [
        {**row, "lispress": [row["lispress"], None, ""][i % 3]}
        if i % 4
        else {"utterance": "hi"}
        for i, row in enumerate(ROWS)
    ]
    known = sum(bool(row.get("lispress")) for row in some)
    for human, synthetic in ((ROWS, some), (some, ROWS)):
        sides = files("h.jsonl", human), files("s.jsonl", synthetic)
        options = ["--human", sides[0], "--synthetic", sides[1], "--mauve-texts", "0"]
        found = line.facts("score", *options)
        assert found["well_formed_rate"] == 1
        assert found["num_programs_compared"] == known


@pytest.mark.parametrize("seed", range(4))
def test_a_human_program_that_is_none_is_named_by_its_line(seed, files, line):
    """Also where a random choice would have left it out."""
    bad = [*ROWS[:20], {**ROWS[20], "lispress": f"({SECRET}"}, *ROWS[21:]]
    human, synthetic = files("h.jsonl", bad), files("s.jsonl", ROWS[:3])
    options = ["--human", human, "--synthetic", synthetic, "--mauve-texts", "0"]
    err = line.refused("score", *options, "--seed", str(seed))
    assert err.strip().endswith(f"got a malformed one in {human} line 21")


def test_without_programs_the_words_are_scored(files, line):
    bare = files("s.jsonl", [{"utterance": row["utterance"]} for row in ROWS])
    found = line.facts("score", "--human", files("h.jsonl", ROWS), "--synthetic", bare)
    assert found["word_type_overlap"] == 1
    assert "chi_square" not in found


def test_parses_with_and_without_a_function(files, line):
    wrong = [{**row, "lispress": row["lispress"].replace("f0", "f1")} for row in ROWS]
    arguments = [
        "--gold",
        files("g.jsonl", ROWS),
        "--predicted",
        files("p.jsonl", wrong),
    ]
    found = line.facts("score", *arguments, "--function", "f0")
    assert found["exact_match_anonymous"] == pytest.approx(20 / 30)
    assert found["api_set"] == "smcalflow"
    assert found["by_function"]["with"]["exact_match_anonymous"] == 0
    assert found["by_function"]["without"]["exact_match_anonymous"] == 1
    assert found["function_recall"]["f0"] == {"recall": 0.0, "num_gold": 10}
    assert "exact_match_anonymous" in line.says(
        "score", *arguments, "--api-set", "treedst"
    )


@pytest.mark.parametrize("pack", ["gzip", "zip"])
def test_a_packed_file_that_grows_without_end_is_one_line(tmp_path, line, pack):
    path, content = tmp_path / "bomb", b"a" * (1 << 25)
    if pack == "gzip":
        path.write_bytes(gzip.compress(content))
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("lines", content)
    assert f"at most 100 times its size unpacked, in {path}, got more" in line.refused(
        "score", "--human", str(path), "--synthetic", str(path)
    )
