import pytest
import torch
import torch.nn.functional as F

from trainables.dp.layers.attention import attention
from trainables.dp.layers.dropout import Masks
from trainables.dp.layers.packing import by_length


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rate", [None, 0.0, 0.4])
def test_attention_is_torchs_of_each_record_alone(rate, causal):
    """Its weights times what the masks of the record's rows say; a rate of 0 drops
    nothing.
    """
    torch.manual_seed(0)
    layout = by_length(torch.tensor([3, 1, 5, 3]))
    masks = (
        None
        if rate is None
        else Masks(rate, seed=1, record=layout.record, position=layout.position)
    )
    rows = torch.randn(12, 3 * 8, dtype=torch.float64)
    seen = attention(rows, layout, heads=2, causal=causal, masks=masks, site=1)
    for record in range(4):
        own = torch.from_numpy(layout.rows.record) == record
        q, k, v = rows[own].view(-1, 3, 2, 4).permute(1, 2, 0, 3)
        every = torch.eye(q.shape[1], dtype=torch.float64).expand(2, -1, -1)
        weights = F.scaled_dot_product_attention(q, k, every, is_causal=causal)
        if rate:
            weights *= masks.attention(5, 2, 1)[own, :, : q.shape[1]].transpose(0, 1)
        torch.testing.assert_close(
            seen[own], (weights @ v).transpose(0, 1).reshape(-1, 8)
        )
    assert attention(rows.bfloat16(), layout, heads=2).dtype == torch.float32
