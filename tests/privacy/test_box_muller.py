"""Box-Muller on given words: its definition in float64, its two forms, and its ends."""

import math

import numpy as np
import pytest
import torch

from tests.system.test_native import COMPILES
from trainables.dp import box_muller, noise
from trainables.dp.noise import GaussianSource, add_noise_, num_extra, public_key
from trainables.system import native

STREAM = public_key(0, "box-muller").stream("a")


def words_of(radii, turns, extra=0):
    words = np.full(2 * len(radii) + num_extra(len(radii)), extra, dtype=np.uint32)
    words[: len(radii)], words[len(radii) : 2 * len(radii)] = radii, turns
    return words


def normals(words, half):
    """The same of the form in NumPy and of the compiled one, where that can be had, and
    near the definition in float64.
    """
    out, same = np.zeros((2, 2 * half), dtype=np.float32)
    box_muller._add_in_numpy(words, half, out, 1.0)
    box_muller.add_normals(words, half, same, 1.0)
    assert np.array_equal(out, same)
    np.testing.assert_allclose(
        noise.normals(words, half).reshape(-1), out, rtol=0, atol=1e-5
    )
    return out[:half].astype(np.float64), out[half:].astype(np.float64)


def random_words(half):
    rng = np.random.default_rng(0)
    return rng.integers(2**32, size=2 * half + num_extra(half), dtype=np.uint32)


def test_radius_and_angle_are_those_of_the_definition():
    """r^2 = -2 ln(word / 2^32); the angle's parts as sine and cosine in float64."""
    half = 1 << 14
    words = random_words(half)
    words[:half] |= np.uint32(1 << 20)  # none that takes more bits
    first, second = normals(words, half)
    exact = np.sqrt(-2 * np.log(words[:half] / 2.0**32))
    np.testing.assert_allclose(np.hypot(first, second), exact, rtol=4e-7)
    turns = words[half : 2 * half]
    angle = (((turns << np.uint32(2)) | np.uint32(2)).view(np.int32)) * (
        math.pi / 4 / 2**31
    )
    c, s = np.cos(angle) * np.where(turns >> 31, -1, 1), np.sin(angle)
    change = (turns >> 30) & 1 == 1
    np.testing.assert_allclose(first, exact * np.where(change, s, c), atol=1e-6)
    np.testing.assert_allclose(second, exact * np.where(change, c, s), atol=1e-6)


@pytest.mark.parametrize(
    ("word", "extra", "u"),
    [
        (0, 0, 2.0**-64),  # the smallest: a radius of 9.42
        (0, 2**31, 2.0**-33),
        (5, 2**31, 5.5 * 2.0**-32),
        (2**20, 2**31, 2.0**-12),  # none of the extra bits
        (2**20 - 1, 2**31, (2**20 - 0.5) * 2.0**-32),
        (2**32 - 1, 0, 1 - 2.0**-32),  # the largest: never a radius of 0
    ],
)
def test_the_ends_of_the_radius(word, extra, u):
    words = words_of([word], [12345], extra)
    radius = math.sqrt(-2 * math.log1p(u - 1) if u > 0.5 else -2 * math.log(u))
    first, second = normals(words, 1)
    assert math.hypot(first[0], second[0]) == pytest.approx(radius, rel=1e-6)
    defined = math.hypot(*noise.normals(words, 1)[:, 0])
    assert defined == pytest.approx(radius, rel=1e-9 if extra else 1e-6)


def test_each_small_word_takes_extra_bits_of_its_own():
    words = words_of([7, 1 << 25, 7], [0, 0, 0])
    words[6:] = [1, 1 << 31, 3, 3]
    first, _ = normals(words, 3)
    radii = [math.sqrt(-2 * math.log((7 + more) / 2**32)) for more in (2.0**-32, 0.5)]
    assert first[[0, 2]] == pytest.approx(radii, rel=1e-6)


def test_the_noise_is_scaled_and_added():
    words = random_words(500)
    plain = np.zeros(999, dtype=np.float32)
    box_muller.add_normals(words, 500, plain, 1.0)
    target = np.arange(999, dtype=np.float32)
    box_muller.add_normals(words, 500, target, 3.0)
    np.testing.assert_allclose(target, np.arange(999) + 3 * plain, rtol=1e-6, atol=1e-6)


@pytest.fixture
def fresh():
    """Builds are looked for anew before and after."""
    forget()
    yield
    forget()


def forget():
    box_muller._native_normals.cache_clear()
    native.library.cache_clear()


@pytest.mark.parametrize("count", [1, 2, 255, 1001, (1 << 17) + 7])
def test_compiled_or_not_the_noise_is_the_same_bit_for_bit(count, monkeypatch, fresh):
    if box_muller._native_normals() is None:
        assert not COMPILES, "what can be compiled is used"
        pytest.skip("no C compiler (cc) on this machine")
    segments = [(slice(0, count // 3), 0.3), (slice(count // 3, count), 2.0)]
    targets = []
    for wanted in ("1", "0"):
        monkeypatch.setenv("SWEEP_NATIVE", wanted)
        forget()
        assert (box_muller._native_normals() is None) == (wanted == "0")
        target = torch.linspace(-1, 1, count)
        add_noise_(target, stream=STREAM, segments=segments)
        targets.append(target)
    assert torch.equal(*targets)


def test_the_stream_is_the_same_on_every_machine(monkeypatch, fresh):
    """Known numbers: a replayed step must meet its noise again, wherever it is
    replayed. Those of a short draw, and those behind a whole chunk.
    """
    monkeypatch.setenv("SWEEP_NATIVE", "0")
    found = GaussianSource(STREAM).fill_(torch.empty(5)).tolist()
    found += GaussianSource(STREAM).fill_(torch.empty((1 << 16) + 3))[-3:].tolist()
    assert [number.hex() for number in found] == KNOWN


KNOWN = [
    "0x1.aa236c0000000p-1",
    "0x1.4d72060000000p-1",
    "0x1.49b1e60000000p+0",
    "0x1.34a6800000000p-1",
    "0x1.335f5c0000000p-1",
    "0x1.faf9b80000000p-2",
    "0x1.6e5fae0000000p+0",
    "-0x1.20ec0a0000000p-1",
]


def test_words_beyond_those_of_the_pairs_are_not_read():
    """More small radii than there are extra words: those are used again, never what
    follows.
    """
    half = 64
    words = words_of([0] * half, list(range(half)), extra=7)
    longer = np.concatenate([words, np.full(half, 1 << 30, dtype=np.uint32)])
    assert np.array_equal(normals(words, half), normals(longer, half))


def test_two_forms_are_compared_on_words_of_a_stream():
    """32 bits each: of others a compiled form reads other numbers and is never used."""
    assert noise.hard_words(128).dtype == np.uint32
