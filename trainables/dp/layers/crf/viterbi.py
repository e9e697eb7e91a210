"""The best path through a linear-chain CRF (Viterbi 1967), over packed rows."""

import torch
from torch import Tensor

from trainables.dp.layers.crf.statistics import Scores
from trainables.dp.layers.packing import TimeMajor

_IN_CACHE = (
    1 << 18
)  # numbers of the sums of (record, tag, tag before) that are held at once
_FEW_TAGS = 8


@torch.no_grad()
def best_paths(
    emissions: Tensor, scores: Scores, layout: TimeMajor
) -> tuple[Tensor, Tensor]:
    """The best tags int64[T] for `emissions` [T, L], time-major, and their unnormalised
    scores [B].

    The scores are in the batch's order.
    """
    num = layout.num_records
    best = torch.empty_like(emissions)
    best[:num] = scores.start + emissions[:num]
    into = (
        scores.transitions.t().contiguous()
    )  # [tag, tag before]: the maximum runs along rows
    earlier = 0
    for size, first in zip(layout.sizes[1:], layout.starts[1:], strict=True):
        rows = slice(first, first + size)
        _reach(best[earlier : earlier + size], into, out=best[rows])
        best[rows] += emissions[rows]
        earlier = first
    final, tag = (best.index_select(0, layout.last) + scores.end).max(1)
    tags = torch.empty(emissions.shape[0], dtype=torch.int64, device=emissions.device)
    tags[layout.last] = tag
    # The tag before is searched on the best path only, not for every tag.
    for size, first in zip(layout.sizes[:0:-1], layout.starts[:0:-1], strict=True):
        before = layout.previous[first - num : first - num + size]
        tags[before] = (best[before] + into[tags[first : first + size]]).argmax(1)
    return tags, final.index_select(0, layout.rank)


def _reach(best: Tensor, into: Tensor, *, out: Tensor) -> None:
    """`out`[b, j] = max over i of `best`[b, i] + `into`[j, i].

    A trained model gives few tags of a record a high score, so the eight best are tried
    first. Where the ninth, with the best transition, could not beat them, the maximum
    is found; the other records are computed in full.
    """
    width = into.shape[0]
    if width <= 4 * _FEW_TAGS:
        _reach_from_all(best, into, out=out)
        return
    top, tags = best.topk(_FEW_TAGS + 1, dim=1)
    onward = into.t().index_select(0, tags[:, :_FEW_TAGS].reshape(-1))
    onward = onward.view(-1, _FEW_TAGS, width).add_(top[:, :_FEW_TAGS, None])
    torch.amax(onward, 1, out=out)
    rest = (top[:, _FEW_TAGS:] + into.amax(1) > out).any(1).nonzero().squeeze(1)
    if len(rest):
        full = best.new_empty(len(rest), width)
        _reach_from_all(best.index_select(0, rest), into, out=full)
        out.index_copy_(0, rest, full)


def _reach_from_all(best: Tensor, into: Tensor, *, out: Tensor) -> None:
    """`_reach` in full, a few records at a time, because the sums of a whole batch
    would be L times its emissions and pass through memory twice.
    """
    width = into.shape[0]
    few = max(1, _IN_CACHE // (width * width))
    sums = best.new_empty(min(few, best.shape[0]), width, width)
    for low in range(0, best.shape[0], few):
        part = best[low : low + few]
        torch.add(part.unsqueeze(1), into, out=sums[: part.shape[0]])
        torch.amax(sums[: part.shape[0]], 2, out=out[low : low + few])
