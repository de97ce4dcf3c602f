"""Events with fields, through Python's own logging.

As a library Tidemill must not write to its user's standard output, which is what structlog does when
nobody configured it. So events go to a logger of the standard library: silent below warnings until the
application says otherwise, and formatted by whatever it chose. The fields lie on the record, as `fields`.
"""

import logging
from typing import Any

import structlog


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


def _as_record(_: Any, __: str, event: Any) -> tuple[tuple[str], dict[str, Any]]:
    """Message and `extra`. Fields stay together, as many names are taken on a record already."""
    message, traceback = event.pop("event"), event.pop("exc_info", None)
    return (message,), {"extra": {"fields": dict(event)}, "exc_info": traceback}
