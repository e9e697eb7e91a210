"""`sweep audit-release`: figures without a text, exit code 1 above the claim."""

import json

from sweep import cli


def test_a_release_of_copies_is_above_its_claim(tmp_path, capsys):
    def write(name, texts):
        path = tmp_path / name
        path.write_text("".join(json.dumps({"utterance": text}) + "\n" for text in texts))
        return str(path)

    members = [f"call secret{i} now" for i in range(60)]
    arguments = [
        "audit-release",
        *("--synthetic", write("s.jsonl", members[:40])),
        *("--members", write("m.jsonl", members)),
        *("--held-out", write("h.jsonl", [f"call other{i} now" for i in range(60)])),
    ]
    assert cli.run([*arguments, "--json"]) == 0
    out = capsys.readouterr().out
    found = json.loads(out)
    assert found["epsilon_lower_bound"] > 0.5
    assert found["num_copies_members"] == 40
    assert "secret" not in out
    assert cli.run([*arguments, "--epsilon", "0.5"]) == 2  # a claim is of a delta
    assert "expected --delta with --epsilon" in capsys.readouterr().err
    arguments += ["--delta", "1e-5"]
    assert cli.run([*arguments, "--epsilon", "0.5"]) == 1
    err = capsys.readouterr().err
    assert "above the claim of 0.5" in err
    assert cli.run([*arguments, "--epsilon", "50"]) == 0
    assert cli.run([*arguments, "--held-out", "nothing.jsonl"]) == 2
    assert "nothing.jsonl" in capsys.readouterr().err
    assert cli.run([*arguments, "--held-out", "nothing.jsonl", "--delta", "1.5"]) == 2
    assert "expected 0 <= delta < 1" in capsys.readouterr().err  # before it reads a file


def test_a_leak_explained_by_delta_is_reported(tmp_path, capsys):
    def write(name, texts):
        path = tmp_path / name
        path.write_text("".join(json.dumps({"utterance": text}) + "\n" for text in texts))
        return str(path)

    members = [f"call secret{i} now" for i in range(200)]
    held_out = [f"call other{i} now" for i in range(200)]
    arguments = [
        "audit-release",
        *("--synthetic", write("s.jsonl", [*members[:60], *held_out[:20]])),
        *("--members", write("m.jsonl", members)),
        *("--held-out", write("h.jsonl", held_out)),
    ]
    assert cli.run([*arguments, "--delta", "0.05"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "epsilon >= 0 at delta=0.05" in out
    assert "delta=0.05 could explain it among 400 records" in out
    assert cli.run([*arguments, "--delta", "0"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "epsilon >= 0.000" not in out
    assert "could explain" not in out
