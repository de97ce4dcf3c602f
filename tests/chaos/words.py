"""What agents, recorder and checks agree on: where entries lie, and how an agent says what happened."""

import json
import sys
import threading

from tidemill.base.clock import boot_clock
from tidemill.cluster import Timing
from tidemill.store import Collection, Fence

ENTRIES = Collection("chaos_entries")
"""One document for each act: {"fence": [collection, key, term], "by": token, …}"""

EFFECTS = Collection("chaos_effects")
"""One document for each task that was done, by the name of the task."""

BOOKS = Collection("chaos_books")
"""Which tasks are finished, how many there are to be, and the ledger that the lock guards."""

TASKS, SHARDS = "tasks", "shards"
LOCK, SEMAPHORE, SLOTS = "ledger", "pool", 2
WINDOW = 24

LEASE = Timing(2.0)
CROWD_LEASE = Timing()
"""A crowd has the usual lease. On SQLite a shorter one is assumed, so what a crowd takes is judged mildly."""

PARTITION_LEASE = Timing(3.0)

TEMPORARY = 75
"""How an agent ends that could not join because its store was away; to be started again."""

_speaking = threading.Lock()


def say(event: str, **facts: object) -> None:
    """One line of JSON. A pipe takes it even when the disk is full."""
    line = json.dumps({"event": event, "at": boot_clock(), **facts}) + "\n"
    with _speaking:
        sys.stdout.write(line)
        sys.stdout.flush()


def place_of(fence: Fence) -> tuple[str, str]:
    return fence.collection.name, fence.key
