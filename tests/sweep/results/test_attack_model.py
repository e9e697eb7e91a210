import pytest

from tests.fixed_keys import fixed_keys
from tests.lines import write_lines
from tests.refusals import refused
from tests.sweep.results.test_leakage import space_in
from tests.trials import run_alone
from trainables import saved
from trainables.attacks import _panel, read_signals
from trainables.config.trial import parse
from trainables.data.corpus import open_corpus
from trainables.errors import InvalidData


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with corpus and an SGD model that has learnt its records by heart."""
    place = tmp_path_factory.mktemp("saved")
    base = space_in(place, split="bernoulli", epsilon=1.0, seeds=[0]).base
    by_heart = {**base["training"], "epochs": 15}  # whichever half its coins give it
    evaluation = {"attacks": ["loss_threshold"]}
    config = parse(
        {**base, "engine": "sgd", "training": by_heart, "evaluation": evaluation}
    )
    with fixed_keys():
        run_alone(config, place / "trial", data=place)
    corpus = open_corpus(config.data, data_dir=place, cache_dir=place / "cache")
    signals = read_signals(place / "trial" / "signals.npz")
    for name, side in (
        ("members", signals.member),
        ("others", signals.is_evaluated & ~signals.member),
    ):
        frames = corpus.frames(signals.records[side])
        tokens = corpus.token_sequences(signals.records[side])
        rows = [
            {"tokens": list(words), "tags": ["O"] * len(words), "intent": frame.intent}
            for words, frame in zip(tokens, frames, strict=True)
        ]
        write_lines(place / f"{name}.jsonl", rows)
    return place, config


@pytest.fixture
def figures(trained, line):
    """What the command finds, with more options."""
    place, _ = trained
    files = (
        "--members",
        place / "members.jsonl",
        "--non-members",
        place / "others.jsonl",
    )
    return lambda *more: line.facts("attack", place / "trial", *files, *more)


def test_a_saved_model_says_what_the_trained_one_said(trained):
    place, config = trained
    signals = read_signals(place / "trial" / "signals.npz")
    corpus = open_corpus(config.data, data_dir=place, cache_dir=place / "cache")
    model = saved.load(place / "trial")
    every = list(config.data.read(place / "mine.jsonl"))
    by_text = {each.tokens: each for each in every}
    asked = [by_text[tuple(t)] for t in corpus.token_sequences(signals.records)]
    said = model.read(asked)
    assert said.log_confidence == pytest.approx(signals.log_confidence, abs=1e-4)


def test_the_loss_attack_finds_what_was_memorised(figures):
    found = figures()
    assert found["mia_loss_threshold_auc_low"] > 0.9
    assert found["mia_blind_auc_low"] < 0.55


def test_a_delta_of_zero_is_used_as_it_is(figures, monkeypatch):
    used = []

    def panel(*_, delta, **__):
        used.append(delta)
        return {"mia_blind_auc_low": 0.5}

    monkeypatch.setattr(_panel, "panel", panel)
    for given in (["--delta", "0"], []):
        figures(*given)
    assert used == [0.0, 1e-5]


def test_records_in_both_files_prove_nothing(trained, figures):
    place, _ = trained
    shared = (place / "members.jsonl").read_text().splitlines()[:7]
    more = place / "both.jsonl"
    more.write_text((place / "others.jsonl").read_text() + "\n".join(shared) + "\n")
    found = figures("--non-members", more)
    assert found["notes"] == ["7 utterances are in both files and were left out"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing"], "expected --members FILE and --non-members FILE for nothing"),
        (
            ["{trial}", "--members", "{members}"],
            "expected --members FILE and --non-members FILE",
        ),
        (
            ["{place}", "--members", "{members}", "--non-members", "{members}"],
            "to be an exported folder with",
        ),
        (
            ["{trial}", "--members", "{members}", "--non-members", "{members}"],
            "expected members that are not also non-members, got none",
        ),
        (["nothing", "--delta", "-1"], "expected 0 <= delta < 1, got delta=-1.0"),
    ],
)
def test_refused_in_one_line(trained, line, arguments, sentence):
    place, _ = trained
    names = {"trial": place / "trial", "place": place}
    names |= {side: place / f"{side}.jsonl" for side in ("members", "others")}
    assert sentence in line.refused(
        "attack", *(each.format(**names) for each in arguments)
    )


def test_a_damaged_model_is_refused(trained, tmp_path):
    for name in ("model.json", "weights.safetensors"):
        (tmp_path / name).write_text("{}")
    with refused("expected a readable model in ", InvalidData):
        saved.load(tmp_path)
