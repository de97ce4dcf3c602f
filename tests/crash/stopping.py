"""Stopping a process, but not in the very middle of a transaction."""

import os
import signal
import sqlite3

PATIENCE_S = 1.0
TRIES = 20


def stop(pid: int, store_url: str) -> None:
    """Stop this child at a moment when it does not hold SQLite's lock; on return none of its threads runs.

    A process that is stopped with the lock holds up all others until it goes on, which is SQLite's nature and
    not what these tests are about: it is let go on, and stopped again.
    """
    for _ in range(TRIES):
        os.kill(pid, signal.SIGSTOP)
        # Until the last of its threads has stopped: on a busy machine that takes a while, in which one of
        # them may still come to the lock.
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if _can_be_written(store_url):
            return
        os.kill(pid, signal.SIGCONT)
        _can_be_written(store_url)  # others have their turn before the next try
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
