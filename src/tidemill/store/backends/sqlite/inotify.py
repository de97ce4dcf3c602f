"""The kernel's word that a file was written, where it gives one (Linux)."""

import ctypes
import os
from pathlib import Path

_MODIFIED = 0x2
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC


def watch_file(path: Path) -> int | None:
    """A descriptor that becomes readable when the file is written; None where there is no such thing.

    Read it empty with `drain`, and close it in the end.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "inotify_init1"):
        return None
    descriptor: int = library.inotify_init1(_FLAGS)
    if descriptor < 0:
        # Each user may have only so many; then we look at the file from time to time instead.
        return None
    if library.inotify_add_watch(descriptor, os.fsencode(path), _MODIFIED) < 0:
        os.close(descriptor)
        return None
    return descriptor


def drain(descriptor: int) -> None:
    """Forget what has been said so far."""
    try:
        while os.read(descriptor, 4096):
            pass
    except BlockingIOError:
        pass
