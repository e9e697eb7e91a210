"""Small separate file systems, for sweeps that fill them."""

import subprocess
from contextlib import contextmanager


@contextmanager
def small_disk(place, *, megabytes):
    """A file system in memory, mounted at `place`.

    Raises: PermissionError where this process may not mount.
    """
    place.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(place)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise PermissionError("there is no mount here") from None
    if done.returncode:
        raise PermissionError(done.stderr.strip())
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def remount_read_only(place, *, read_only=True):
    """Let a file system take no more writes, or take them again."""
    how = "ro" if read_only else "rw"
    subprocess.run(["mount", "-o", f"remount,{how}", str(place)], check=True)
