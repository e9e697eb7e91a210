import pytest

from tests.lines import read_lines, write_lines

ROWS = [
    {
        "utterance": f"{verb} {name}",
        "lispress": f'(Yield ({verb.title()} (name "{name}")))',
        "part": "test" if name == "zoe" else "train",
    }
    for verb in ("book", "cancel", "call")
    for name in ("ann", "tom", "kim", "joe", "zoe")
]


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.jsonl"
    write_lines(path, ROWS * 4)
    return path


def test_train_apply_and_score(pairs, tmp_path, line):
    folder, parsed = tmp_path / "parser", tmp_path / "parsed.jsonl"
    command = [
        "parser",
        "train",
        "pair_lines",
        "--set",
        f"path={pairs}",
        "--epochs",
        "2",
    ]
    command += ["--test", "test", "--to"]
    facts = line.facts(*command, folder)
    assert facts["num_pairs"] == 48
    assert facts["scores"]["num_records"] == 12
    assert facts["scores"]["well_formed_rate"] == 1
    lines = line.says(*command, tmp_path / "again").splitlines()
    # A line for each figure, and none that holds all of them.
    shown = [
        *(name for name in facts if name not in ("schema", "scores")),
        *facts["scores"],
    ]
    assert [each.split()[0] for each in lines] == shown
    line.says("parser", "apply", folder, pairs, "--to", parsed)
    rows = read_lines(parsed)
    assert [row["utterance"] for row in rows] == [row["utterance"] for row in ROWS * 4]
    score = ["score", "--human", pairs, "--synthetic", parsed, "--parser", folder]
    found = line.facts(*score, "--mauve-texts", "0")
    # The release is the human text, so its parses are the parser's of human text.
    for name in ("function_type_overlap", "function_top10", "chi_square"):
        assert found[name] == found[f"{name}_ground_truth"]
    assert (
        line.facts("score", "--gold", pairs, "--predicted", parsed)["num_records"] == 60
    )
