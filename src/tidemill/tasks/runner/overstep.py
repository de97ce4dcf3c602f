"""Whether a job takes more than it may. Pure."""

from msgspec import Struct

from tidemill.tasks.runner.job import MB, Cause, Limits


class Stop(Struct, frozen=True):
    """Why a job is ended by others."""

    cause: Cause
    reason: str


CANCELLED = Stop("cancel", "cancelled")
SHUTDOWN = Stop("shutdown", "the node stopped while it ran")


def overstepped(limits: Limits, ran_s: float, written: int, memory_mb: int | None) -> Stop | None:
    """The first limit that is passed, in words with its figure. `memory_mb` is None when nobody looked."""
    if limits.timeout_s is not None and ran_s >= limits.timeout_s:
        return Stop("timeout", f"ran longer than {limits.timeout_s:g} s")
    if limits.memory_mb is not None and memory_mb is not None and memory_mb > limits.memory_mb:
        reason = f"used {memory_mb} MB, more than the {limits.memory_mb} MB that its queue allows"
        return Stop("memory", reason)
    if written > limits.output_mb * MB:
        reason = f"wrote {written // MB} MB, more than the {limits.output_mb} MB that its queue allows"
        return Stop("output", reason)
    return None
