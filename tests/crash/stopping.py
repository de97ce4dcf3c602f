"""Stopping a process, but not in the very middle of a transaction."""

import signal
import sqlite3
from collections.abc import Callable

PATIENCE_S = 1.0
TRIES = 20


def stop(send: Callable[[signal.Signals], object], store_url: str) -> None:
    """Send SIGSTOP at a moment when the process does not hold SQLite's lock.

    A process that is stopped with the lock holds up all others until it goes on, which is SQLite's nature and
    not what these tests are about: it is let go on, and stopped again.
    """
    for _ in range(TRIES):
        send(signal.SIGSTOP)
        if _can_be_written(store_url):
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
