"""The analytic CRF against pytorch-crf, and at extreme scores."""

from contextlib import nullcontext

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from trainables.dp.layers.crf import layer as crf_layer
from trainables.dp.layers.crf import statistics as crf_statistics
from trainables.dp.layers.crf.layer import LinearChainCrf
from trainables.dp.layers.crf.statistics import Scores, forward_backward
from trainables.dp.layers.packing import time_major
from trainables.dp.layers.recorder import Recorder, plain, recording
from trainables.dp.layers.units import Units
from trainables.errors import TrialFailed


def random_crf(num_tags, *, scale=1.0):
    torch.manual_seed(0)
    crf = LinearChainCrf(num_tags)
    for parameter in crf.parameters():
        torch.nn.init.uniform_(parameter, -scale, scale)
    return crf


def packed_batch(num_tags, lengths, *, scale=2.0):
    torch.manual_seed(1)
    emissions = scale * torch.randn(sum(lengths), num_tags)
    return (
        time_major(torch.tensor(lengths)),
        emissions,
        torch.randint(num_tags, (sum(lengths),)),
    )


LENGTHS = [[3, 1, 7, 2, 7], [1, 1], [1], [5]]


def test_norms_of_transitions_are_the_same_a_few_units_at_a_time(monkeypatch):
    """Of which two are held at once: five of equal length behind a longer one."""
    layout, emissions, tags = packed_batch(6, [5, *[4] * 5])
    crf = random_crf(6)
    tape = Recorder()
    with recording(tape):
        losses = crf(
            emissions[layout.source].requires_grad_(), tags[layout.source], layout
        )
    losses.sum().backward()
    (entry,) = tape.entries
    units = Units(torch.arange(6), 6, device=emissions.device)
    weights = dict.fromkeys(crf.parameters(), 1.0)
    whole = entry.squared_norms(units, weights)
    monkeypatch.setattr(crf_layer, "_CHUNK", 2 * 6**2)
    torch.testing.assert_close(
        entry.squared_norms(units, weights), whole, rtol=1e-6, atol=0
    )
    assert len(whole.unique()) == 6


@pytest.mark.parametrize("scale", [1.0, 14.0, 60.0, 500.0])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_loss_and_every_gradient_equal_pytorch_crf(lengths, scale):
    """The likelihood that the layer overrides, of the same layer, in float64; scores
    below and beyond the range of exponential space.
    """
    layout, emissions, tags = packed_batch(6, lengths, scale=2 * scale)
    weights = torch.rand(len(lengths), dtype=torch.float64)
    found = []
    for kind, way in ((torch.float32, nullcontext), (torch.float64, plain)):
        crf = random_crf(6, scale=scale).to(kind)
        rows = emissions[layout.source].to(kind).requires_grad_()
        with way():
            loss = crf(rows, tags[layout.source], layout)
        # Without a pair of tokens pytorch-crf never touches its transitions.
        gradients = torch.autograd.grad(
            loss.double() @ weights, [rows, *crf.parameters()], materialize_grads=True
        )
        found.append([loss.double(), *(gradient.double() for gradient in gradients)])
    for mine, its in zip(*found, strict=True):
        torch.testing.assert_close(
            mine, its, rtol=1e-5, atol=1e-5 if scale < 14 else 1e-4
        )


def best_paths(num_tags, lengths, *, spread=1.0):
    """Emissions, layout, paths and scores; the paths are those of `CRF.decode` of all
    tags and records at once.
    """
    layout, emissions, _ = packed_batch(num_tags, lengths)
    emissions = emissions * spread
    crf = random_crf(num_tags)
    rows = emissions[layout.source]
    found = forward_backward(rows, crf.scores, layout)
    tags, scores = crf.best_paths(rows, layout)
    padded = pad_sequence(emissions.split(lengths))
    there = pad_sequence([torch.ones(length, dtype=torch.bool) for length in lengths])
    expected = crf.decode(padded, there)
    assert [t.tolist() for t in tags[layout.place].split(lengths)] == expected
    path = -crf(rows, tags, layout)
    torch.testing.assert_close(scores - found.log_partition[layout.rank], path.detach())


@pytest.mark.parametrize("lengths", [*LENGTHS, [4] * 20])
def test_best_paths_are_those_of_pytorch_crf(lengths):
    best_paths(6, lengths)


@pytest.mark.parametrize("spread", [0.1, 3.0, 30.0])
def test_decode_is_given_few_of_many_tags_and_misses_none(spread, monkeypatch):
    """Flat emissions leave every tag open, steep ones a handful."""
    tried = []
    decode = crf_layer.CRF.decode
    monkeypatch.setattr(
        crf_layer.CRF,
        "decode",
        lambda self, *a: tried.append(self.num_tags) or decode(self, *a),
    )
    best_paths(60, [9, 1, 7, 12], spread=spread)
    of_all, of_layer = tried.pop(), tried
    assert of_all == 60
    assert (max(of_layer) == 60) == (spread < 1)


def test_the_best_path_with_an_impossible_greedy_one():
    """BIO rules forbid the path of the largest marginals: nothing is left out."""
    crf = bio_crf(2, never=-1e4)
    layout = time_major(torch.tensor([3]))
    rows = torch.tensor([[1.0, 1.2, 0, 0, 0], [0, 0, 1, 0, 0.9], [0, 0, 1.0, 0, 0]])
    tags, _ = crf.best_paths(rows, layout)
    there = torch.ones(3, 1, dtype=torch.bool)
    assert tags.tolist() == crf.decode(rows.unsqueeze(1), there)[0]


def test_a_wrong_likelihood_fails_the_trial_at_the_next_epoch(monkeypatch):
    """Seen in the first batch after each change to training, and in no other: an engine
    says `train` before every step, and a comparison takes a third of one.
    """
    crf = random_crf(6)
    layout, emissions, tags = packed_batch(6, [5, 2, 4])
    rows = emissions[layout.source], tags[layout.source], layout
    crf(*rows)
    wrong = crf_statistics.path_scores
    monkeypatch.setattr(crf_layer, "path_scores", lambda *a: 1.01 * wrong(*a))
    crf(*rows)
    crf.train()
    crf(*rows)
    crf.eval()
    crf.train()
    with pytest.raises(TrialFailed, match="the CRF's losses are not those of pytorch"):
        crf(*rows)


def vector():
    emissions = torch.tensor([[1.0, 0, -1], [0, 2, 0]])
    transitions = torch.tensor([[0.5, 0, -0.5], [0, 0.5, 0], [-0.5, 0, 0.5]])
    return (
        emissions,
        Scores(transitions, torch.zeros(3), torch.zeros(3)),
        time_major(torch.tensor([2])),
    )


@pytest.mark.parametrize(
    "largest", [crf_statistics.MAX_RANGE, -1.0], ids=["exp", "log"]
)
def test_known_values(largest, monkeypatch):
    monkeypatch.setattr(crf_statistics, "MAX_RANGE", largest)
    emissions, scores, layout = vector()
    found = forward_backward(emissions, scores, layout)
    torch.testing.assert_close(
        found.log_partition, torch.tensor([3.782970]), rtol=0, atol=1e-6
    )
    marginals = [[0.596544, 0.322723, 0.080733], [0.129813, 0.796114, 0.074073]]
    torch.testing.assert_close(
        found.marginals, torch.tensor(marginals), rtol=0, atol=1e-6
    )
    pairs = found.pairs.sums(None, slice(None), 1, torch.ones(1))[0]
    for (i, j), probability in {
        (0, 1): 0.457046,
        (1, 1): 0.277213,
        (2, 1): 0.061855,
    }.items():
        assert pairs[i, j] == pytest.approx(probability, abs=1e-6)


def test_a_broken_record_does_not_touch_the_others():
    crf = random_crf(3)
    layout, emissions, _ = packed_batch(3, [4, 2, 3])
    whole = forward_backward(emissions[layout.source], crf.scores, layout)
    emissions[4] = torch.nan  # the second record
    found = forward_backward(emissions[layout.source], crf.scores, layout)
    assert found.log_partition[layout.rank].isfinite().tolist() == [True, False, True]
    kept = layout.record != 1
    torch.testing.assert_close(found.marginals[kept], whole.marginals[kept])


def bio_crf(slots, *, never):
    """O, then B and I of each slot; I follows B or I of its own slot only."""
    crf = random_crf(1 + 2 * slots, scale=0.5)
    slot = torch.tensor([-1, *(k // 2 for k in range(2 * slots))])
    inside = torch.tensor([False, *[False, True] * slots])
    with torch.no_grad():
        crf.transitions.masked_fill_(inside & (slot != slot.unsqueeze(1)), never)
        crf.start_transitions.masked_fill_(inside, never)
    return crf


def in_logs(emissions, scores, layout):
    doubled = Scores(
        *(v.detach().double() for v in (scores.transitions, scores.start, scores.end))
    )
    return crf_statistics._logarithmic(emissions.double(), doubled, layout)


@pytest.mark.parametrize("never", [-1e4, -torch.inf])
@pytest.mark.parametrize("scale", [1.0, 8.0, 40.0, 400.0])
def test_forbidden_transitions_stay_exact_at_any_scale(scale, never):
    """Small emissions are answered in exponential space, large ones must not be."""
    crf = bio_crf(5, never=never)
    layout, emissions, _ = packed_batch(11, [9, 4, 1, 6], scale=scale)
    rows = emissions[layout.source]
    found, truth = (f(rows, crf.scores, layout) for f in (forward_backward, in_logs))
    torch.testing.assert_close(
        found.log_partition.double(), truth.log_partition, rtol=1e-5, atol=1e-4
    )
    torch.testing.assert_close(
        found.marginals.double(), truth.marginals, rtol=0, atol=2e-4
    )
    of_pairs = found.pairs.sums(None, slice(None), 1, torch.ones(16))[0]
    assert of_pairs.sum() == pytest.approx(16, abs=1e-3)
    assert not of_pairs[crf.transitions == never].any()


def test_only_the_record_that_lost_too_much_is_computed_in_log_space(monkeypatch):
    """One record in ten thousand must not make its whole batch twenty times slower."""
    crf = bio_crf(5, never=-1e4)
    layout, emissions, _ = packed_batch(11, [9, 4, 1, 6])
    emissions[9:13] *= 400.0  # the second record
    rows = emissions[layout.source]
    truth = in_logs(rows, crf.scores, layout)
    in_log_space, computed = crf_statistics._logarithmic, []

    def watched(emissions, scores, layout):
        computed.append(len(emissions))
        return in_log_space(emissions, scores, layout)

    monkeypatch.setattr(crf_statistics, "_logarithmic", watched)
    found = forward_backward(rows, crf.scores, layout)
    assert computed == [4]
    torch.testing.assert_close(
        found.log_partition.double(), truth.log_partition, rtol=1e-5, atol=1e-4
    )
    torch.testing.assert_close(
        found.marginals.double(), truth.marginals, rtol=0, atol=2e-4
    )
    of_pairs, true_pairs = (
        f.pairs.sums(None, slice(None), 1, torch.ones(16))[0] for f in (found, truth)
    )
    torch.testing.assert_close(of_pairs.double(), true_pairs, rtol=0, atol=1e-3)


def test_the_only_way_on_is_found_where_float32_had_lost_it():
    """B is e^-150 behind O at the first token; at the second only its I is possible at
    all.
    """
    crf = bio_crf(1, never=-torch.inf)
    layout = time_major(torch.tensor([2]))
    emissions = torch.tensor([[0.0, -150.0, -200.0], [-400.0, -400.0, 0.0]])
    found, truth = (
        f(emissions, crf.scores, layout) for f in (forward_backward, in_logs)
    )
    assert truth.marginals[0, 1] > 0.99
    torch.testing.assert_close(
        found.marginals.double(), truth.marginals, rtol=0, atol=1e-5
    )
    unguarded, kept = crf_statistics._exponential(emissions, crf.scores, layout)
    assert unguarded.marginals[0, 1] != pytest.approx(1.0, abs=0.01)  # 0 / 0
    assert not bool((kept >= -crf_statistics.MOST_LOST).all())


def test_the_bio_rules_are_answered_in_exponential_space(monkeypatch):
    monkeypatch.delattr(crf_statistics, "_logarithmic")
    layout, emissions, _ = packed_batch(11, [9, 4, 1, 6])
    forward_backward(emissions[layout.source], bio_crf(5, never=-1e4).scores, layout)
