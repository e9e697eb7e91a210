"""Weights with fewer bits."""

import pytest
import torch

from trainables.encoders.folder import load_tensors, save_tensors


@pytest.mark.parametrize(("bits", "off"), [(32, 0.0), (16, 1e-3), (8, 1 / 250)])
def test_a_weight_of_fewer_bits_is_near(tmp_path, bits, off):
    draw = torch.Generator().manual_seed(1)
    rows = torch.randn(40, 30, generator=draw) * torch.logspace(-3, 2, 40).unsqueeze(1)
    rows[7] = 0.0
    before = {"rows": rows, "vector": torch.randn(9, generator=draw), "count": torch.tensor([3])}
    save_tensors(before, tmp_path / "w", bits=bits)
    found = load_tensors(tmp_path / "w")
    assert found["count"].dtype == torch.int64
    largest = rows.abs().amax(1, keepdim=True)
    assert ((found["rows"] - rows).abs() <= off * largest).all()
    if bits == 8:
        assert (tmp_path / "w").stat().st_size < 40 * 30 + 40 * 4 + 600
