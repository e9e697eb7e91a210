"""Which files were forced to the disk."""

import os
from contextlib import contextmanager


@contextmanager
def flushes(monkeypatch):
    """The inodes of the files and folders that are flushed meanwhile."""
    found, flush = set(), os.fsync

    def fsync(descriptor):
        found.add(os.fstat(descriptor).st_ino)
        flush(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        yield found
