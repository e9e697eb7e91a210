import json

import pytest

from tests.lines import write_lines


@pytest.fixture
def audit(tmp_path):
    """The words of a command line on three lists of texts."""

    def words(**texts):
        for name, each in texts.items():
            file = write_lines(tmp_path / name, [{"utterance": text} for text in each])
            yield from (f"--{name.replace('_', '-')}", file)

    return lambda **texts: ["audit-release", *words(**texts)]


def test_a_release_of_copies_is_above_its_claim(audit, line):
    members = [f"call secret{i} now" for i in range(60)]
    held_out = [f"call other{i} now" for i in range(60)]
    words = audit(synthetic=members[:40], members=members, held_out=held_out)
    out = line.says(*words, "--json")
    found = json.loads(out)
    assert found["epsilon_lower_bound"] > 0.5
    assert found["num_copies_members"] == 40
    assert "secret" not in out
    # A claim is of a delta.
    assert "expected --delta with --epsilon" in line.refused(*words, "--epsilon", "0.5")
    words += ["--delta", "1e-5"]
    code, _, err = line(*words, "--epsilon", "0.5")
    assert code == 1
    assert "above the claim of 0.5" in err
    line.says(*words, "--epsilon", "50")
    words += ["--held-out", "nothing.jsonl"]
    assert "nothing.jsonl" in line.refused(*words)
    # Before it reads a file.
    assert "expected 0 <= delta < 1" in line.refused(*words, "--delta", "1.5")


def test_a_leak_explained_by_delta_is_reported(audit, line):
    members = [f"call secret{i} now" for i in range(200)]
    held_out = [f"call other{i} now" for i in range(200)]
    words = audit(
        synthetic=[*members[:60], *held_out[:20]], members=members, held_out=held_out
    )
    out = " ".join(line.says(*words, "--delta", "0.05").split())
    assert "epsilon >= 0 at delta=0.05" in out
    assert "delta=0.05 could explain it among 400 records" in out
    out = " ".join(line.says(*words, "--delta", "0").split())
    assert "epsilon >= 0.000" not in out
    assert "could explain" not in out
