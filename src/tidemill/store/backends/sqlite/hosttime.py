"""A clock that all processes of this machine agree on, and that never steps.

The wall clock can be set back or forward under a running process, and two processes may even see
different ones. The time since boot cannot be set. So the first process after a boot writes down by
how much the wall clock is ahead of the time since boot, and everybody adds that.
"""

import time
from pathlib import Path

import apsw

from tidemill.base.clock import boot_clock

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str | None:
    """What tells one boot of this machine from the next; None where there is no such thing."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return None


class HostTime:
    """Milliseconds that agree among the processes that share a file. Read once, then no more I/O."""

    def __init__(self, offset_ms: int | None) -> None:
        self._offset_ms = offset_ms

    def now(self) -> int:
        if self._offset_ms is None:
            return wall_ms()
        return int(boot_clock() * 1000) + self._offset_ms


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def known_time(connection: apsw.Connection) -> HostTime | None:
    """The clock of this file, or None when nobody has set it up since boot."""
    boot = boot_id()
    if boot is None:
        return HostTime(None)
    last_boot, offset, _ = _last_anchor(connection)
    return HostTime(offset) if last_boot == boot else None


def anchor_time(connection: apsw.Connection) -> HostTime:
    """Set up the clock for this boot, inside a write transaction.

    It is never behind the one before it, even if the wall clock came up wrong after a reboot.
    """
    known = known_time(connection)
    if known is not None:
        return known
    _, _, last = _last_anchor(connection)
    booted, now = int(boot_clock() * 1000), max(wall_ms(), last)
    connection.execute(
        "INSERT OR REPLACE INTO tidemill_meta VALUES ('clock', ?)", (f"{boot_id()} {now - booted} {now}",)
    )
    return HostTime(now - booted)


def _last_anchor(connection: apsw.Connection) -> tuple[str, int, int]:
    value = connection.execute("SELECT value FROM tidemill_meta WHERE name = 'clock'").get
    boot, offset, since = str(value).split() if value else ("", "0", "0")
    return boot, int(offset), int(since)
