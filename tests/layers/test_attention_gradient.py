"""The gradient of attention, written by hand, against central differences: with dropout too."""

import pytest
import torch
import torch.nn.functional as F

from trainables.layers.attention import attention
from trainables.layers.dropout import Masks
from trainables.layers.packing import by_length


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_attentions_gradient_is_its_derivative(rate, causal):
    torch.manual_seed(0)
    lengths = torch.tensor([3, 1, 3, 4])
    layout = by_length(lengths)
    masks = Masks(rate, seed=1, record=layout.record, position=layout.position)
    rows = torch.randn(int(lengths.sum()), 3 * 4, dtype=torch.float64, requires_grad=True)

    def seen(qkv):
        own = masks if rate else None
        return attention(qkv, layout, heads=2, causal=causal, masks=own, site=1)

    assert torch.autograd.gradcheck(seen, (rows,))


def test_attention_drops_what_its_masks_say():
    """With masks of rate 0 it is the attention without masks, with others it is not."""
    torch.manual_seed(0)
    layout = by_length(torch.tensor([3, 4]))
    rows = torch.randn(7, 12)
    where = {"record": layout.record, "position": layout.position}
    plain, none, some = (
        attention(rows, layout, heads=2, masks=masks)
        for masks in (None, Masks(0.0, seed=1, **where), Masks(0.4, seed=1, **where))
    )
    assert torch.equal(plain, none)
    assert not torch.allclose(plain, some, atol=1e-3)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_torchs_of_each_record_alone(causal):
    torch.manual_seed(0)
    layout = by_length(torch.tensor([3, 1, 5, 3]))
    rows = torch.randn(12, 3 * 8, dtype=torch.float64)
    seen = attention(rows, layout, heads=2, causal=causal)
    for record in range(4):
        own = torch.from_numpy(layout.rows.record) == record
        q, k, v = rows[own].view(-1, 3, 2, 4).permute(1, 2, 0, 3)
        alone = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        torch.testing.assert_close(seen[own], alone.transpose(0, 1).reshape(-1, 8))
