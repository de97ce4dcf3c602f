"""Events with fields, through Python's own logging.

As a library Tidemill must not write to its user's standard output, which is what structlog does when
nobody configured it. So events go to a logger of the standard library: silent below warnings until the
application says otherwise, and formatted by whatever it chose. The fields lie on the record, as `fields`.
"""

import logging
import math
from typing import Any

import structlog

from tidemill.base.clock import Clock, boot_clock

SELDOM_S = 30.0


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger whose methods take an event name and fields: `log.info("leader.gained", term=7)`."""
    bound: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        logging.getLogger(name),
        processors=[structlog.stdlib.filter_by_level, _as_record],
        wrapper_class=structlog.stdlib.BoundLogger,
        context_class=dict,
        cache_logger_on_first_use=True,
    )
    return bound


class Sparing:
    """Tells of trouble that comes again and again: a warning when it begins and every `SELDOM_S`, the rest to
    those who debug. Otherwise a store that is away would fill the disk."""

    def __init__(self, log: structlog.stdlib.BoundLogger, clock: Clock = boot_clock) -> None:
        self._log = log
        self._clock = clock
        self._quiet_until = -math.inf

    def warn(self, event: str, **fields: Any) -> None:
        """The trouble goes on."""
        now = self._clock()
        if now < self._quiet_until:
            self._log.debug(event, **fields)
        else:
            self._quiet_until = now + SELDOM_S
            self._log.warning(event, **fields)

    def over(self) -> None:
        """It went well: what comes next is told at once."""
        self._quiet_until = -math.inf


def _as_record(_: Any, __: str, event: Any) -> tuple[tuple[str], dict[str, Any]]:
    """Message and `extra`. Fields stay together, as many names are taken on a record already."""
    message, traceback = event.pop("event"), event.pop("exc_info", None)
    return (message,), {"extra": {"fields": dict(event)}, "exc_info": traceback}
