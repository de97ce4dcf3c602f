"""Which tasks somebody means: the same words over HTTP and on the command line. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tidemill.store import Condition, eq, one_of
from tidemill.tasks.errors import BadTask
from tidemill.tasks.status import NAMES

FILTERS = ("queue", "status", "node", "batch")
SORTS = ("turn", "-turn")
NEWEST_FIRST = "-turn"

_INTEGER = re.compile(r"-?[0-9]{1,10}")
_CODES = {name: code for code, name in NAMES.items()}
STATUSES = f"a number, or one of {', '.join(_CODES)}"
"""What a status may be."""


def conditions(given: Mapping[str, Any]) -> list[Condition]:
    """What the filters ask for, all of which must hold; of several values of one, any may.

    A filter that is None or has no values counts as absent. Raises `BadTask` for what cannot be asked.
    """
    unknown = sorted(set(given) - set(FILTERS))
    if unknown:
        raise BadTask(
            f"tasks are found by {', '.join(FILTERS)}, which are indexed, and not by {unknown[0]!r}"
        )
    values = {name: _values(name, value) for name, value in given.items()}
    return [
        eq(name, found[0]) if len(found) == 1 else one_of(name, found)
        for name, found in values.items()
        if found
    ]


def status_code(value: Any) -> int:
    """A status by its number or its word. Raises `BadTask`."""
    if isinstance(value, str) and value in _CODES:
        return _CODES[value]
    return _number("status", value, STATUSES)


def sorting(sort: str) -> tuple[str]:
    """The order that was asked for. Raises `BadTask`."""
    if sort not in SORTS:
        raise BadTask(f"tasks are sorted by {' or '.join(SORTS)}, not by {sort!r}")
    return (sort,)


def projected(view: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """Those fields of a task and its id; all when none are named. Raises `BadTask`."""
    for name in fields:
        if name not in view:
            raise BadTask(f"tasks have no field {name!r}; they have {', '.join(view)}")
    return {name: view[name] for name in ("id", *fields)} if fields else dict(view)


def _values(name: str, given: Any) -> list[Any]:
    if given is None:
        return []
    entries = given if isinstance(given, list | tuple) else [given]
    parts = [part for entry in entries for part in (entry.split(",") if isinstance(entry, str) else [entry])]
    return [_value(name, part) for part in parts if part != ""]


def _value(name: str, value: Any) -> Any:
    if name == "status":
        return status_code(value)
    if name == "batch":
        return _number(name, value, "a number")
    if not isinstance(value, str):
        raise BadTask(f"{name} is {value!r}, and must be text")
    return value


def _number(name: str, value: Any, allowed: str) -> int:
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if not _INTEGER.fullmatch(text):
        raise BadTask(f"{name} is {value!r}, and must be {allowed}")
    return int(text)


def matches(document: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a document of a small collection has these values; of a list, any of them."""
    return all(
        document.get(name) in value if isinstance(value, list) else document.get(name) == value
        for name, value in wanted.items()
    )
