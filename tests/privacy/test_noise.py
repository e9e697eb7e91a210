"""The key, its streams, and the Gaussian that comes from them. False-alarm rate of each
statistical comparison: 1e-6; the streams are fixed.
"""

import hashlib
import inspect
import pickle
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from scipy.stats import chi2, kstest, norm, poisson

from tests.refusals import refused
from trainables.config.trial import parse
from trainables.dp import noise
from trainables.dp.engines.engine import Setup
from trainables.dp.noise import (
    GaussianSource,
    SecretKey,
    add_noise_,
    new_key,
    public_key,
)
from trainables.dp.seeding import GOLDEN, generator, mix, stream_seed
from trainables.errors import TrialFailed
from trainables.system.communication import Alone

KEY = public_key(0, "noise")


def normals(count, name="a"):
    return GaussianSource(KEY.stream(name)).fill_(torch.empty(count))


def test_the_noise_is_gaussian_and_other_scales_are_rejected():
    """Kolmogorov-Smirnov on 200,000 numbers."""
    found = normals(200_000).double().numpy()
    assert kstest(found, "norm").pvalue > 1e-6
    for wrong in (2 / 3, 3 / 2, 0.95):
        assert kstest(found * wrong, "norm").pvalue < 1e-6


def test_the_tail_goes_beyond_a_24_bit_radius():
    """As many as a Gaussian has beyond 4.5, and beyond 5.2: 24 bits would end at
    5.77.
    """
    found = normals(1 << 23).abs()
    assert torch.isfinite(found).all()
    for limit in (4.5, 5.2):
        beyond = int((found > limit).sum())
        expected = 2 * norm.sf(limit) * len(found)
        assert poisson.ppf(5e-7, expected) <= beyond <= poisson.isf(5e-7, expected)


@pytest.mark.parametrize("count", [1, 2, 3, 1000, (1 << 17) + 1, (1 << 18) + 5])
def test_every_number_is_drawn_and_none_twice(count):
    """No coordinate is missed at the ends of the chunks, none repeats another's
    noise.
    """
    found = normals(count)
    assert (found != 0).all()
    assert len(found.unique()) > 0.99 * count


def test_a_stream_is_its_names_and_no_other():
    names = [
        ("n", "t", 0, 0, 1),
        ("n", "t", 0, 1, 0),
        ("n", "t", 1, 0, 0),
        ("n", "u", 0, 0, 0),
    ]
    names += [("n", "t", 0, 0, 0), ("n", "t,0", 0, 0), ("n", "t", "0", 0, 0)]
    streams = [KEY.stream(*name) for name in names]
    assert len(set(streams)) == len(names)
    assert KEY.stream(*names[0]) == streams[0]
    # torch's CPU generator takes 32 bits of a seed; a stream here is 64 bytes.
    assert (
        len({public_key(seed, "noise").stream(*names[0]) for seed in (0, 1, 2**32)})
        == 3
    )


def test_segments_never_share_their_noise():
    """Equal segments get what one segment over both would have got, also by the way
    that a float64 target and a GPU's noise take.
    """
    halves = [(slice(0, 1000), 2.0), (slice(1000, 2000), 2.0)]
    direct, apart = torch.zeros(2000), torch.zeros(2000, dtype=torch.float64)
    add_noise_(direct, stream=KEY.stream("h"), segments=halves)
    add_noise_(apart, stream=KEY.stream("h"), segments=halves)
    for found in (direct.double(), apart):
        correlation = float(found[:1000] @ found[1000:]) / (1000 * 4)
        assert abs(correlation) * 1000**0.5 < norm.isf(5e-7)
    torch.testing.assert_close(direct.double(), apart, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:3", "mps"])
def test_noise_is_the_ciphers_on_every_device_unless_a_config_says_otherwise(device):
    asked = parse({"engine": "dp_sgd"}).privacy.secure_noise
    assert asked
    assert inspect.signature(add_noise_).parameters["secure"].default is asked
    assert Setup.secure_noise is asked
    assert noise.is_cipher(torch.device(device), secure=asked)
    assert noise.is_cipher(torch.device(device), secure=False) == (
        not device.startswith("cuda")
    )


@pytest.fixture
def offer():
    """`accelerate` until the end of the test."""
    right = noise._offered
    yield noise.accelerate
    noise.accelerate(right)


class OnGpu:
    """Where a target lies, and what is added to it."""

    class Device(str):
        type = "cuda"

    device, dtype = Device("cpu"), torch.float32

    def __init__(self):
        self.added = []

    def __getitem__(self, where):
        return self

    def numel(self):
        return 10

    def add_(self, numbers, alpha):
        self.added += numbers.tolist()
        return self


def test_a_gpus_target_takes_the_ciphers_noise_by_default(monkeypatch):
    monkeypatch.setattr(
        noise, "_add_device_noise_", lambda on, *given: on.added.append(given)
    )
    where, stream = [(slice(0, 10), 1.0)], KEY.stream("g")
    own = [(stream, where)]
    for secure, expected in (({}, normals(10, "g").tolist()), ({"secure": False}, own)):
        target = OnGpu()
        add_noise_(target, stream=stream, segments=where, **secure)
        assert target.added == expected


def test_a_devices_generator_takes_64_bits_of_the_stream(monkeypatch):
    """As many as CUDA's has; a CPU's reads 32 of them."""
    made, real = [], torch.Generator
    monkeypatch.setattr(
        torch, "Generator", lambda **on: made.append(real(**on)) or made[-1]
    )
    stream = KEY.stream("d")
    for bit in range(64):
        changed = (int.from_bytes(stream, "little") ^ (1 << bit)).to_bytes(64, "little")
        for each in (stream, changed):
            noise._add_device_noise_(torch.zeros(2), each, [(slice(0, 2), 1.0)])
        assert (
            made[-1].initial_seed() != made[-2].initial_seed() == made[0].initial_seed()
        )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda radii: radii < 1 << 4,
        lambda radii: (radii >= 1 << 8) & (radii < 1 << 12),
        lambda radii: (radii >= 1 << 14) & (radii < 1 << 18),
        lambda radii: radii > 0xFFFFFFF0,
        lambda radii: np.arange(len(radii)) == len(radii) - 1,
    ],
)
def test_a_form_that_is_wrong_where_radii_are_rare_is_not_used(wrong, offer):
    def add(words, half, target, std):
        noise._add_reference(words, half, target, std)
        target[:half][wrong(words[:half])] += 1e-3

    offer(add)
    assert noise._form() is noise._add_reference
    offer(lambda *given: noise._add_reference(*given[:3], 2 * given[3]))
    assert noise._form() is noise._add_reference


@pytest.mark.parametrize("error", [1e-3, -1e-3])
@pytest.mark.parametrize("place", [0, 7, 15])
@pytest.mark.parametrize("size", [0.0, 3.0])
def test_a_form_that_goes_wrong_later_ends_the_trial(size, place, error, offer):
    def add(words, half, target, std):
        noise._add_reference(words, half, target, std)
        target[place] += (
            std * error * (half != 1 << 12)
        )  # unlike those it is compared on

    offer(add)
    for count in (1 << 13, 100):
        target, ends = torch.full((count,), size), count == 100
        with refused("noise of its def", TrialFailed) if ends else nullcontext():
            GaussianSource(KEY.stream("later")).add_(target, std=2.0)


def test_forms_are_compared_on_small_and_large_words_and_on_the_first_numbers_of_a_stream(
    monkeypatch, offer
):
    """Golden values of the words: rare radii are among them. Large numbers, and those
    that are not finite, are no fault of a form.
    """
    compared, firsts, right = [], [], noise.normals

    def add(words, half, target, std):
        compared.append(
            (hashlib.sha256(words).hexdigest()[:8], half, target.shape, std)
        )
        noise._add_reference(words, half, target, std)

    def noted(words, half, first=None):
        firsts.append(first)
        return right(words, half, first=first)

    offer(add)
    assert noise._form() is add
    assert compared == [("7953774b", 4096, (8191,), 1.3)]
    monkeypatch.setattr(noise, "normals", noted)
    target = torch.linspace(-1e4, 1e4, (1 << 16) + 8)
    target[3] = torch.nan
    GaussianSource(KEY.stream("first")).add_(target, std=1e-3)
    assert firsts == [None, 16, None, 0]
    GaussianSource(KEY.stream("first")).add_(target[:7], std=1e-3)
    assert firsts[4:] == [None, 4]


def test_a_devices_own_generator_gives_each_segment_its_scale():
    """A GPU's way without `secure`, on the CPU's: scale; independence of segments and
    streams.
    """
    where = [(slice(0, 50_000), 1.0), (slice(50_000, 100_000), 3.0)]
    first, again, other = (torch.full((100_000,), 7.0) for _ in range(3))
    for target, name in ((first, "d"), (again, "d"), (other, "e")):
        noise._add_device_noise_(target, KEY.stream(name), where)
    assert torch.equal(first, again)
    left, right = first[:50_000].double() - 7, first[50_000:].double() - 7
    n = 50_000
    for part, std in ((left, 1.0), (right, 3.0)):
        assert (
            chi2.ppf(5e-7, n) < float(part.square().sum()) / std**2 < chi2.isf(5e-7, n)
        )
    for one, two in ((left, right), (left, other[:n].double() - 7)):
        correlation = float(one @ two / (one.norm() * two.norm()))
        assert abs(correlation) * n**0.5 < norm.isf(5e-7)


def test_a_key_shows_nothing():
    key = SecretKey(b"s" * 32)
    assert "s" * 4 not in f"{key} {key!r}"
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(key)
    assert not hasattr(key, "__dict__")


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_key_has_32_bytes(size):
    with pytest.raises(
        ValueError, match=f"expected a key of 32 bytes, got {size} bytes"
    ):
        SecretKey(b"s" * size)


def test_a_new_key_is_new_and_shared():
    assert new_key(Alone()).stream("a") != new_key(Alone()).stream("a")


def test_a_key_gives_the_same_streams_in_every_version():
    """Golden values: nothing that a stream is made of may be left out or exchanged
    unnoticed.
    """
    key = public_key(0, "golden")
    assert (
        key.stream("noise", "t", 0, 0, 5).hex()[:32]
        == "179e3694a31b2a7bc73d467b038ada70"
    )
    assert key.coins("t", 1).integers(1000, size=3).tolist() == [547, 93, 206]
    found = GaussianSource(key.stream("g")).fill_(torch.empty(5)).tolist()
    assert found == pytest.approx(
        [0.4142361, 2.1448684, 0.4790582, -1.0305222, -0.0541155]
    )
    assert stream_seed(7, "a", 1) == 7657576676628874343
    assert generator(7, "a", 1).integers(1000, size=3).tolist() == [756, 88, 142]
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]  # SplitMix64 from state 0
    assert mix(np.arange(1, 3, dtype=np.uint64) * GOLDEN).tolist() == published
