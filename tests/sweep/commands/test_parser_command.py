"""`sweep parser`: from pairs to a parser to parses to scores, and refusals of one line."""

import json

import pytest

from sweep import cli

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
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS * 4))
    return path


def test_train_apply_and_score(pairs, tmp_path, capsys):
    folder, parsed = tmp_path / "parser", tmp_path / "parsed.jsonl"
    command = ["parser", "train", "pair_lines", "--set", f"path={pairs}", "--epochs", "2"]
    command += ["--test", "test", "--to"]
    assert cli.run([*command, str(folder), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["num_pairs"] == 48
    assert facts["scores"]["num_records"] == 12
    assert facts["scores"]["well_formed_rate"] == 1
    assert cli.run([*command, str(tmp_path / "again")]) == 0
    lines = capsys.readouterr().out.splitlines()
    # A line for each figure, and none that holds all of them.
    shown = [*(name for name in facts if name not in ("schema", "scores")), *facts["scores"]]
    assert [line.split()[0] for line in lines] == shown
    assert cli.run(["parser", "apply", str(folder), str(pairs), "--to", str(parsed)]) == 0
    rows = [json.loads(line) for line in parsed.read_text().splitlines()]
    assert [row["utterance"] for row in rows] == [row["utterance"] for row in ROWS * 4]
    capsys.readouterr()
    score = ["score", "--human", str(pairs), "--synthetic", str(parsed), "--parser", str(folder)]
    assert cli.run([*score, "--mauve-texts", "0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    # The release is the human text, so its parses are the parser's of human text.
    for name in ("function_type_overlap", "function_top10", "chi_square"):
        assert found[name] == found[f"{name}_ground_truth"]
    assert cli.run(["score", "--gold", str(pairs), "--predicted", str(parsed), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["num_records"] == 60


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--part", "validation"), "a part of the corpus (test, train)"),
        (("--without", "Nope"), "a function that some of the pairs use"),
        (("--set", "max_records=100"), "data.max_records to be at most the number of records"),
    ],
)
def test_refused_in_one_line(pairs, tmp_path, capsys, options, message):
    command = ["parser", "train", "pair_lines", "--set", f"path={pairs}", "--to"]
    assert cli.run([*command, str(tmp_path / "p"), *options]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_wrong_places_are_refused(pairs, tmp_path, capsys):
    refused = {
        ("parser", "train", "atis", "--to", str(tmp_path / "p")): "got 'atis'",
        ("parser", "train", "pair_lines", "--to", str(tmp_path)): "new or empty folder",
        ("parser", "apply", str(tmp_path), str(pairs), "--to", str(tmp_path / "x")): "saved parser",
        ("parser", "apply", str(tmp_path), str(pairs), "--to", str(pairs)): "which exists",
    }
    for command, message in refused.items():
        assert cli.run(list(command)) == 2
        assert message in capsys.readouterr().err


def test_adapt_gives_a_row_for_each_set(pairs, tmp_path, capsys):
    texts = tmp_path / "s.jsonl"
    texts.write_text('{"utterance": "cancel ann"}\n{"utterance": " "}\n')
    command = ["parser", "adapt", "pair_lines", "--set", f"path={pairs}", "--without", "Cancel"]
    command += ["--public-fraction", "0.5", "--steps", "2", "--synthetic", f"mine={texts}"]
    assert cli.run([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["rows"]) == ["none", "mine", "full"]
    none, mine, full = found["rows"].values()
    assert none["num_with_function"] == 0
    assert mine["num_pairs"] == none["num_pairs"] + 1
    assert 0 < full["num_with_function"] <= 16  # those of the private pairs
    assert set(none["scores"]) == {"with", "all", "without"}
    assert cli.run([*command[:-1], "s.jsonl"]) == 2
    assert "NAME=FILE" in capsys.readouterr().err
    command[command.index("Cancel")] = "Nope"
    assert cli.run(command) == 2
    assert "to name a function that occurs" in capsys.readouterr().err
    command[command.index("0.5")] = "3"
    assert cli.run(command) == 2
    assert "public_fraction: input should be less than 1" in capsys.readouterr().err
