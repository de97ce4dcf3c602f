"""The status codes of a task, and what they have in common.

    parked ──► queued ──► claimed ──► running ──► ended
                 ▲           │           │
                 └───────────┴───────────┘  given back, orphaned, or to be tried again

A positive status is a plugin's own word that it has finished; a negative one that is not named here keeps a
task from being claimed until somebody queues it.
"""

from typing import Final

ORPHANED: Final = -6
CANCELLED: Final = -5
BLOCKED: Final = -4
TERMINATED: Final = -3
QUEUED: Final = -2
CLAIMED: Final = -1
RUNNING: Final = 0
SUCCEEDED: Final = 1
FAILED: Final = 2

LIVE: Final = (CLAIMED, RUNNING)
"""In the hands of a node, under a lease."""

NAMES: Final = {
    ORPHANED: "orphaned",
    CANCELLED: "cancelled",
    BLOCKED: "blocked",
    TERMINATED: "terminated",
    QUEUED: "queued",
    CLAIMED: "claimed",
    RUNNING: "running",
    SUCCEEDED: "succeeded",
    FAILED: "failed",
}


def is_live(status: int) -> bool:
    return status in LIVE


def is_ended(status: int) -> bool:
    """Whether nothing more will happen to the task unless somebody asks for it."""
    return status > 0 or status in (ORPHANED, CANCELLED, TERMINATED)


def is_parked(status: int) -> bool:
    """Whether the task waits for somebody to queue it."""
    return status < 0 and status not in (QUEUED, CLAIMED) and not is_ended(status)


def name_of(status: int) -> str:
    """The word for a status; a plugin's own codes have none, and stay numbers."""
    if status in NAMES:
        return NAMES[status]
    return f"ended {status}" if status > 0 else f"parked {status}"
