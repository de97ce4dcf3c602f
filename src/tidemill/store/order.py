"""The one order of documents, where a database is not asked for it: missing values first, ties by key."""

from collections.abc import Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from tidemill.store.cursor import value_of
from tidemill.store.document import Document


def in_order(documents: Iterable[Document], sort: Sequence[str]) -> list[Document]:
    """Sorted by the fields of `sort`, then by key."""
    ordered = sorted(documents, key=attrgetter("key"))
    for entry in reversed(sort):
        field = entry.removeprefix("-")
        if entry != "key":
            ordered.sort(key=partial(_by, field), reverse=entry != field)
    return ordered


def orderable(value: Any) -> tuple[bool, Any]:
    """Missing values before all others."""
    return (value is not None, value if value is not None else 0)


def _by(field: str, document: Document) -> tuple[bool, Any]:
    return orderable(value_of(document, field))
