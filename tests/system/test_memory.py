"""Freed memory goes back to the system where small pieces in use lie between the
gaps.
"""

import subprocess
import sys

# In a process of its own, whose memory no other test has shaped.
_CHILD = """
import psutil
from trainables.system import memory

def resident():
    return psutil.Process().memory_info().rss / 2**20

pieces = [bytearray(60_000) for _ in range(4_000)]  # 229 MiB, none a mapping of its own
kept = pieces[99::100]  # the heap cannot shrink from its end
del pieces
before = resident()
memory.give_back()
print(before, resident(), sum(map(len, kept)))
"""


def test_gaps_between_pieces_in_use_are_given_back():
    done = subprocess.run(
        [sys.executable, "-c", _CHILD], capture_output=True, text=True, check=True
    )
    before, after, in_use = (float(word) for word in done.stdout.split())
    assert before > 229
    assert after < before - 150
    assert in_use == 40 * 60_000
