"""What SQLite and PostgreSQL have in common: how a collection lies in a table.

One table per collection. The facts of a document and its declared fields are columns, so that they
can be searched, sorted and set without reading the body; the other fields lie in `body` as JSON text.
Missing values sort before all others, as SQLite has it.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from tidemill.store.check import decode_body, encode_body
from tidemill.store.document import FACTS, Body, Collection, Condition, Document, Query, Scalar, Where

_BODY = len(FACTS)
"""Where the body stands in a row of `selected`: after the facts, and before the declared fields."""


@lru_cache(maxsize=256)
def table(collection: Collection) -> str:
    return f"tidemill_{collection.name}"


def column(field: str) -> str:
    """The prefix keeps declared fields apart from facts and from SQL's own words."""
    return field if field in FACTS else f"f_{field}"


@lru_cache(maxsize=256)
def field_columns(collection: Collection) -> tuple[str, ...]:
    return tuple(column(name) for name, _ in collection.fields)


@lru_cache(maxsize=256)
def selected(collection: Collection, fields: tuple[str, ...] | None = None, of: str = "") -> str:
    """The columns that `document_of` expects; the body is left out when `fields` has no need of it."""
    declared = {name for name, _ in collection.fields}
    bare = fields is not None and all(field in declared or field in FACTS for field in fields)
    body = "NULL" if bare else f"{of}body"
    facts = ", ".join(f"{of}{fact}" for fact in FACTS)
    return ", ".join([facts, body, *(f"{of}{name}" for name in field_columns(collection))])


def document_of(collection: Collection, row: Sequence[Any], fields: Iterable[str] | None = None) -> Document:
    """A row of `selected` as a document."""
    body = body_of(collection, row, _BODY)
    if fields is not None:
        body = {name: body[name] for name in fields if name in body}
    return Document(row[0], body, row[1], row[2], row[3], row[4])


def body_of(collection: Collection, row: Sequence[Any], at: int) -> Body:
    """The body that stands at `at` in the row, together with the declared fields after it."""
    body: Body = {} if row[at] is None else decode_body(row[at])
    for name, _ in collection.fields:
        at += 1
        if row[at] is not None:
            body[name] = row[at]
        elif name in body:
            # From before the field was declared; the column has been filled from it, and counts.
            del body[name]
    return body


def split_body(collection: Collection, body: Body) -> tuple[str, list[Scalar]]:
    """The JSON text of the undeclared fields, and the values of the declared ones."""
    rest = body.copy()
    values = [rest.pop(name, None) for name, _ in collection.fields]
    return encode_body(rest), values


class Render:
    """Conditions, orders and cursors as SQL text with parameters, for one style of placeholder.

    `?` is SQLite's and `%s` PostgreSQL's; PostgreSQL also has to be told where missing values go.
    """

    def __init__(self, mark: str, *, say_nulls: bool) -> None:
        self.mark = mark
        self._say_nulls = say_nulls

    def where(self, where: Where) -> tuple[str, list[Scalar]]:
        parts: list[str] = []
        values: list[Scalar] = []
        for condition in where:
            text, more = self._condition(condition)
            parts.append(text)
            values += more
        return (" AND ".join(parts) or "TRUE"), values

    def find(self, collection: Collection, query: Query) -> tuple[str, list[Scalar]]:
        """The statement that finds documents in order, and its parameters.

        The keys are sorted first and the bodies read then: what is sorted stays small, and often lies in an
        index as a whole.
        """
        where, values = self.where(query.where)
        beyond, more = self.after(query)
        order = self.order(query.sort)
        rows = f"FROM {table(collection)} WHERE {where} AND {beyond} ORDER BY {order} LIMIT {self.mark}"
        if query.sort and query.fields is None:
            rows = f"FROM {table(collection)} WHERE key IN (SELECT key {rows}) ORDER BY {order}"
        return f"SELECT {selected(collection, query.fields)} {rows}", [*values, *more, query.limit]

    def order(self, sort: Sequence[str]) -> str:
        return ", ".join(self._ordered(entry) for entry in with_key(sort))

    def index(self, fields: Sequence[str]) -> str:
        """The columns of an index that serves `order` by the same fields."""
        return ", ".join(self._ordered(field) for field in fields)

    def after(self, query: Query) -> tuple[str, list[Scalar]]:
        """What comes after the cursor: greater in the first field, or equal there and greater in the next…"""
        if query.after is None:
            return "TRUE", []
        choices: list[str] = []
        values: list[Scalar] = []
        entries = list(zip((*query.sort, "key"), query.after, strict=True))
        for at, (entry, value) in enumerate(entries):
            equal = [self._equal(column(name.removeprefix("-")), same) for name, same in entries[:at]]
            beyond = self._beyond(entry, value)
            parts = [*equal, beyond]
            choices.append("(" + " AND ".join(text for text, _ in parts) + ")")
            for _, more in parts:
                values += more
        return "(" + " OR ".join(choices) + ")", values

    def _ordered(self, entry: str) -> str:
        name = column(entry.removeprefix("-"))
        down = entry.startswith("-")
        nulls = (" NULLS LAST" if down else " NULLS FIRST") if self._say_nulls else ""
        return name + (" DESC" if down else " ASC") + nulls

    def _condition(self, condition: Condition) -> tuple[str, list[Scalar]]:
        name, value = column(condition.field), condition.value
        if isinstance(value, tuple):
            known: list[Scalar] = [one for one in value if one is not None]
            if not known:
                return "FALSE", []
            return f"{name} IN ({', '.join([self.mark] * len(known))})", known
        if condition.operator == "=":
            return self._equal(name, value)
        if value is None:
            return "FALSE", []
        return f"{name} {condition.operator} {self.mark}", [value]

    def _equal(self, name: str, value: Scalar) -> tuple[str, list[Scalar]]:
        return (f"{name} IS NULL", []) if value is None else (f"{name} = {self.mark}", [value])

    def _beyond(self, entry: str, value: Scalar) -> tuple[str, list[Scalar]]:
        name, down = column(entry.removeprefix("-")), entry.startswith("-")
        if value is None:
            return ("FALSE", []) if down else (f"{name} IS NOT NULL", [])
        if down:
            return f"({name} < {self.mark} OR {name} IS NULL)", [value]
        return f"{name} > {self.mark}", [value]


def with_key(sort: Sequence[str]) -> Sequence[str]:
    """Ties go by key, so that every order is total."""
    return sort if "key" in sort or "-key" in sort else (*sort, "key")


def sparse(collection: Collection, fields: Sequence[str]) -> str:
    """What ends the declaration of an index, if that is a sparse one."""
    return f" WHERE {column(fields[0])} IS NOT NULL" if tuple(fields) in collection.sparse else ""


def assignments(claim_set: Iterable[tuple[str, Scalar]], mark: str) -> tuple[str, list[Scalar]]:
    """`, f_status = ?` for each field that a claim sets."""
    pairs = list(claim_set)
    return "".join(f", {column(name)} = {mark}" for name, _ in pairs), [value for _, value in pairs]
