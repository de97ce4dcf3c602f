"""What a queue does about tasks that fail. Pure."""

from typing import Literal, TypeAlias

from msgspec import Struct

OrphanPolicy: TypeAlias = Literal["requeue", "mark"]
StuckPolicy: TypeAlias = Literal["requeue", "fail", "ignore"]


class Policy(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How often a task of the queue is tried, and what ends it.

    `attempts` is how many times a task may fail or be stopped before that is its end, and `crashes` how many
    times whatever runs it may die. `orphans` says what becomes of tasks whose node is lost: they are queued
    again, or marked for somebody to look at. `stuck` says what becomes of a job of which its remote worker
    has given no sign for `stuck_s`: another worker gets it, it has failed, or nothing.
    """

    attempts: int = 1
    crashes: int = 3
    backoff_s: float = 1.0
    backoff_max_s: float = 300.0
    orphans: OrphanPolicy = "requeue"
    timeout_s: float | None = None
    grace_s: float = 5.0
    memory_mb: int | None = None
    output_mb: int = 256
    stuck_s: float = 600.0
    stuck: StuckPolicy = "requeue"


REMOTE = {"attempts": 3, "crashes": 10}
"""What a queue of remote jobs has unless it is told otherwise: a job goes to another worker if one fails."""


JITTER = 0.25
"""By what share a pause may be shorter or longer: what failed together is not to come back together."""


def backoff_ms(policy: Policy, failures: int, chance: float) -> int:
    """How long to wait after that many failures: twice as long each time, up to a limit, spread by chance."""
    doubled_s = policy.backoff_s * 2.0 ** min(failures - 1, 60)
    return round(1000 * min(doubled_s, policy.backoff_max_s) * (1 + JITTER * (2 * chance - 1)))
