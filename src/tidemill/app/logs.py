"""Logs: events with fields, to standard error; for people on a terminal, as JSON lines anywhere else."""

import logging
import sys
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor


def _add_fields(_: Any, __: str, event: EventDict) -> EventDict:
    """The fields of our own events, which lie on the record."""
    event.update(getattr(event["_record"], "fields", {}))
    return event


_FACTS: tuple[Processor, ...] = (
    _add_fields,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


def configure_logs(level: str, stream: TextIO | None = None) -> None:
    """Send our events and those of libraries through one formatter. A second call replaces the first."""
    target = stream if stream is not None else sys.stderr
    renderers: list[Processor] = (
        [structlog.dev.ConsoleRenderer(colors=True)]
        if target.isatty()
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_FACTS,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Every request that the demo makes of its own node would be a line.
    logging.getLogger("httpx2").setLevel(logging.WARNING)
