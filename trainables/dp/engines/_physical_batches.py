"""Physical batches: how a step's records are cut into passes of bounded memory."""

from collections.abc import Iterator
from dataclasses import dataclass

from trainables.dp.sampling import SampledBatch


@dataclass(frozen=True)
class PhysicalBatch:
    """Records `start:stop` of a draw, forwarded at once: units `first:last`, whole, or
    one piece.

    `whole` is False for a piece of a unit; `ends` is False for all but the unit's last
    piece.
    """

    start: int
    stop: int
    first: int
    last: int
    whole: bool = True
    ends: bool = True


def passes(
    draw: SampledBatch, *, limit: int | None, units_apart: bool
) -> Iterator[PhysicalBatch]:
    """Cut `draw` into passes of at most `limit` records.

    Units stay whole where they fit, several in a pass unless `units_apart`. A larger
    unit is cut into pieces, whose gradients are to be added *before* they are clipped.
    Units without records are in no pass.
    """
    limit = limit or max(1, len(draw.records))
    first = last = start = stop = 0  # of the pass being filled
    for unit, size in enumerate(draw.sizes.tolist()):
        if size == 0:
            continue
        if stop > start and (units_apart or stop - start + size > limit):
            yield PhysicalBatch(start, stop, first, last)
            start = stop
        if size > limit:
            end = stop + size
            for piece in range(start, end, limit):
                until = min(piece + limit, end)
                yield PhysicalBatch(
                    piece, until, unit, unit + 1, whole=False, ends=until == end
                )
            start = stop = end
            continue
        if stop == start:
            first = unit
        stop, last = stop + size, unit + 1
    if stop > start:
        yield PhysicalBatch(start, stop, first, last)
