"""Stopping a process, but not in the very middle of a transaction."""

import signal
import sqlite3
from collections.abc import Callable

PATIENCE_S = 1.0
TRIES = 20
LOOKS = 5


def stop(send: Callable[[signal.Signals], None], store_url: str) -> None:
    """Send SIGSTOP at a moment when the process does not hold SQLite's lock.

    A process that is stopped with the lock holds up all others until it goes on, which is SQLite's nature and
    not what these tests are about: it is let go on, and stopped again.
    """
    for _ in range(TRIES):
        send(signal.SIGSTOP)
        # A signal takes a moment to arrive, in which the process may still come to the lock.
        if all(_can_be_written(store_url) for _ in range(LOOKS)):
            return
        send(signal.SIGCONT)
    raise AssertionError("the process never let go of the database")


def _can_be_written(store_url: str) -> bool:
    if not store_url.startswith("sqlite:///"):
        return True
    connection = sqlite3.connect(store_url.removeprefix("sqlite:///"), timeout=PATIENCE_S)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except sqlite3.OperationalError:
        return False
    finally:
        connection.close()
    return True
