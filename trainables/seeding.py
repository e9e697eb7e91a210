"""Named, independent generators from one public seed (`guarantee.seeding`), for what is public:
initialisation, splits, dropout, bootstrap.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from trainables.guarantee.seeding import GOLDEN as GOLDEN
from trainables.guarantee.seeding import generator as generator
from trainables.guarantee.seeding import mix as mix
from trainables.guarantee.seeding import stream_seed as stream_seed


@contextmanager
def torch_seeded(seed: int) -> Iterator[None]:
    """A context in which torch draws from `seed` on the CPU; its generator is then as it was."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
