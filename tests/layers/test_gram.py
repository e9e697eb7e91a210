"""Which way a norm from Grams takes, and what is kept of them (see
`test_released_norm`).
"""

import numpy as np
import pytest
import torch

from trainables.dp.layers import factored, gram
from trainables.dp.layers.factored import FactoredLinear
from trainables.dp.layers.packing import Rows
from trainables.dp.layers.precision import passes_in
from trainables.dp.layers.recorder import Recorder, recording
from trainables.dp.layers.rounding import row_norms
from trainables.dp.layers.units import Units
from trainables.system import native

pytestmark = pytest.mark.usefixtures("way")


def rows_of(sizes):
    """Units of these numbers of rows."""
    record = np.repeat(np.arange(len(sizes)), sizes)
    return Units(torch.arange(len(sizes)), len(sizes)).of(Rows(record, len(sizes)))


@pytest.mark.parametrize(
    ("inner", "width", "measured"), [(768, 8, 62), (312, 8, 66), (312, 312, 96)]
)
def test_a_thin_gradient_is_formed_of_long_units_alone(inner, width, measured):
    """Measured: rows of a unit from which its gradient is cheaper than its compiled
    Grams, of which 96 rows are the most. The product of two widths alone would say 8.
    """
    g = torch.zeros(1, width)
    longest = gram._longest(inner, width, g, compiled=True)
    assert abs(longest / measured - 1) <= 0.2
    assert longest == gram._longest(width, inner, g, compiled=True) <= gram._MOST_ROWS


@pytest.mark.parametrize("size", [4, 11, 23])
@pytest.mark.parametrize("bad", [torch.inf, torch.nan])
def test_only_its_own_rows_count(size, bad):
    """What is not finite in one unit does not reach another."""
    rows = rows_of([size] * 3)
    g, a = torch.randn(3 * size, 40), torch.randn(3 * size, 30)
    before = gram.gram_norms(rows, [(a, 1.0)], g, 1.0).squares
    a[size : 2 * size] = g[size : 2 * size] = bad
    after = gram.gram_norms(rows, [(a, 1.0)], g, 1.0).squares
    assert torch.equal(after[[0, 2]], before[[0, 2]])
    assert not bool(after[1].isfinite())


class TestFixedRows:
    """What is kept of an activation gives the norms of its present numbers and
    grouping.
    """

    def setup_method(self):
        torch.manual_seed(1)
        self.x = torch.randn(20, 40)
        self.fixed = gram.FixedRows(self.x)

    def norms(self, sizes, g, *, known):
        fixed = self.fixed if known else None
        return gram.gram_norms(
            rows_of(sizes), [(self.x, 0.7)], g, 0.4, fixed=fixed
        ).squares

    def entry(self, layer, rows, precision="fp32"):
        tape = Recorder()
        with recording(tape), passes_in(precision, torch.device("cpu")):
            self.y = layer(self.x, rows)
            self.y.sum().backward()
        (entry,) = tape.entries
        return entry

    def test_norms_are_those_without_it(self, way):
        """In every step, with other gradients, other units and units in another order;
        also of a library that is loaded again: without types a call cuts addresses to
        32 bits.
        """
        native.library.cache_clear()
        for sizes in (
            [9, 6, 5],
            [9, 6, 5],
            [5, 9, 6],
            [4, 4, 12],
            [4, 12, 4],
            [20],
            [9, 6, 5],
        ):
            g = torch.randn(20, 30)
            found, right = (
                self.norms(sizes, g, known=known) for known in (True, False)
            )
            torch.testing.assert_close(found, right, rtol=1e-6, atol=0)
        if way == "compiled":
            assert len(native.library(gram._SOURCE).unit_grams.argtypes) == 5

    def test_it_is_of_one_tensor_that_was_not_written_to(self):
        layer = FactoredLinear(40, torch.eye(3))
        known = layer.known_of(self.x)
        norms = known.fixed.upper_norms(self.x)
        torch.testing.assert_close(norms, row_norms(self.x), rtol=1e-5, atol=0)
        assert layer.known_of(self.x) is known
        assert not gram._is_plain([self.x.to("meta")]), "of another device"
        assert layer.share_norm > 1, "of the unit matrix: however its norm was rounded"
        assert layer.known_of(self.x.clone()) is not known
        known = layer.known_of(self.x)
        self.x.mul_(2)
        assert layer.known_of(self.x) is not known

    def test_bf16_rounds_the_rows_once_and_the_tape_keeps_the_rounded_ones(
        self, monkeypatch
    ):
        """Norm and sum read the values that the products take; another precision, other
        rows. Without such instructions the same numbers are added up.
        """
        layer, rows = FactoredLinear(40, torch.eye(3)), Rows(np.repeat([0, 1], 10), 2)
        torch.nn.init.normal_(layer.weight)
        scores = []
        for has in (False, True):
            monkeypatch.setattr(
                factored, "multiplies_bf16", lambda device, has=has: has
            )
            self.entry(layer, rows, "bf16")
            scores.append(self.y)
        torch.testing.assert_close(*scores, rtol=2**-7, atol=1e-4)
        kept = [self.entry(layer, rows, each).x for each in ("bf16", "bf16", "fp32")]
        assert kept[0] is kept[1]
        assert torch.equal(kept[0], self.x.bfloat16().float())
        assert torch.equal(kept[2], self.x)
        with passes_in("bf16", torch.device("cpu")):
            norms = layer.known_of(self.x).fixed.upper_norms(kept[0])
        torch.testing.assert_close(norms, row_norms(kept[0]), rtol=1e-5, atol=0)

    def test_a_step_after_a_write_has_the_new_norms(self):
        layer, rows = FactoredLinear(40, torch.eye(3)), Rows(np.repeat([0, 1], 10), 2)
        units = Units(torch.arange(2), 2)
        found = []
        for factor in (1.0, 1.0, 2.0):
            self.x.mul_(factor)
            found.append(
                self.entry(layer, rows).squared_norms(units, {layer.weight: 1.0})
            )
        torch.testing.assert_close(found[1], found[0])
        torch.testing.assert_close(found[2], 4 * found[0])
