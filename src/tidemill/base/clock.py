"""Monotonic time as a value that is passed in.

Wall time never decides anything in Tidemill: instants come from the store, and durations are
measured on a `Clock`. Sleeping is the event loop's business (`asyncio.sleep`), which the simulator
replaces together with the clock.
"""

import time
from collections.abc import Callable
from typing import TypeAlias

Clock: TypeAlias = Callable[[], float]
"""Seconds since some fixed moment; never goes back."""

# CLOCK_MONOTONIC stands still while a machine is suspended, so that a laptop or a migrated virtual
# machine would wake up trusting a lease that ran out long ago. CLOCK_BOOTTIME goes on counting.
_SOURCE: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_clock() -> float:
    """The machine's monotonic clock, suspension included."""
    return time.clock_gettime(_SOURCE)
