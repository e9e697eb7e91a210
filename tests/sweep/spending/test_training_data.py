"""The data set of a trial's charges, and the texts that identify shared records."""

from sweep.planning.accounting import Accounting
from tests.sweep.sweeps import settings_in
from tests.tasks._pairs import made_pairs, tiny, write_pairs


def test_pairs_are_known_by_their_utterances(tmp_path):
    config = tiny(write_pairs(tmp_path, training=12, human=6))
    account = Accounting(settings_in(tmp_path))
    found = account.data_of(config)
    assert found.name == "smcalflow"
    assert found.fingerprint == account.data_of(config).fingerprint
    texts = list(found.texts())
    assert {row["utterance"].lower().encode() for row in made_pairs(12)} <= set(texts)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = tiny(write_pairs(elsewhere, training=11, human=6))
    assert (
        Accounting(settings_in(elsewhere)).data_of(other).fingerprint
        != found.fingerprint
    )
