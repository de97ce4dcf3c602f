"""Scripts: the statements of an SQL text, each with its place and its own words.

Only heads are understood here: names, the column list of a table, its primary key. Types and queries stay the
text that the user wrote, for Spark to read. Comments of tables, views and columns are read over: they are for
people who read the script.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tidemill.pipeline.errors import Place, Refused
from tidemill.sql.words import Words, place_at, split

T = TypeVar("T")

APPEND = "rows come and go with p.insert(), p.delete() and p.apply()"
SESSION = "it belongs to the Spark session: do it there, before the pipeline is opened"
BYTE_ORDER_MARK = "\ufeff"  # some editors begin a file with it
INSTEAD = {
    "SELECT": "CREATE VIEW name AS SELECT …, and read it with p.view(name)",
    "WITH": "CREATE VIEW name AS WITH …, and read it with p.view(name)",
    "FROM": "CREATE VIEW name AS FROM …, and read it with p.view(name)",
    "VALUES": "CREATE VIEW name AS VALUES …, and read it with p.view(name)",
    "TABLE": "read a table with p.view(name)",
    "INSERT": APPEND,
    "UPDATE": APPEND,
    "DELETE": APPEND,
    "MERGE": APPEND,
    "COPY": APPEND,
    "LOAD": APPEND,
    "TRUNCATE": APPEND,
    "ALTER": "DROP it, then CREATE it anew",
    "REPLACE": "DROP it, then CREATE it anew",
    "SET": SESSION,
    "RESET": SESSION,
    "USE": SESSION,
    "DECLARE": SESSION,
    "CACHE": "leave it out: views are kept already",
    "REFRESH": "leave it out: p.step() brings views up to date",
    "EXPLAIN": "p.explain(), or tidemill pipeline explain FILE",
    "SHOW": "p.tables and p.views",
    "DESCRIBE": "p.table(name).schema",
    "DESC": "p.table(name).schema",
    "BEGIN": "leave it out: the statements of a script take effect together",
}
"""By the word with which a statement of Spark's starts that is none of a pipeline's."""


@dataclass(frozen=True, slots=True)
class Statement:
    """What all statements have: the name they are about, their place and their text."""

    name: str
    place: Place
    text: str


@dataclass(frozen=True, slots=True)
class CreateTable(Statement):
    """`columns` are definitions that Spark's own parser reads, each at its place; `key` names the primary
    key's columns, said at `key_place`; `lateness` is a column and the interval by which its values may be
    behind."""

    columns: tuple[str, ...]
    places: tuple[Place, ...]
    key: tuple[str, ...]
    key_place: Place
    if_not_exists: bool
    lateness: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class CreateView(Statement):
    """`query` is verbatim, comments and hints included; `query_place` is where it starts.

    `names` are those of the columns, each at its place; none if the query names them.
    """

    query: str
    query_place: Place
    if_not_exists: bool
    names: tuple[str, ...]
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class CreateRecursiveView(CreateView):
    """A view whose query may refer to the view itself, which therefore says its `columns` with their types.

    `levels` is how many iterations may be needed; None for the default.
    """

    columns: tuple[str, ...]
    levels: int | None


@dataclass(frozen=True, slots=True)
class DropTable(Statement):
    if_exists: bool


@dataclass(frozen=True, slots=True)
class DropView(Statement):
    if_exists: bool


AnyStatement = CreateTable | CreateView | CreateRecursiveView | DropTable | DropView


def parse(text: str) -> tuple[AnyStatement, ...]:
    """The statements of a script, in order. Raises `Refused`, with its place, for any other kind."""
    return tuple(_statement(words) for words in split(text.removeprefix(BYTE_ORDER_MARK)))


def _statement(words: Words) -> AnyStatement:
    place, start = words.place, words.offset
    if words.accept("CREATE"):
        return _create(words, place, start)
    if words.accept("DROP"):
        return _drop(words, place, start)
    known = "which knows CREATE TABLE, CREATE VIEW, DROP TABLE and DROP VIEW"
    instead = INSTEAD.get(words.peek())
    raise words.refuse(
        f"{words.peek()} is no statement of a pipeline, {known}"
        + (f"; instead, {instead}" if instead else "")
    )


def _drop(words: Words, place: Place, start: int) -> DropTable | DropView:
    kind: type[DropTable | DropView]
    if words.accept("TABLE"):
        kind = DropTable
    elif words.accept("VIEW") or words.accept("MATERIALIZED", "VIEW"):
        kind = DropView
    else:
        raise words.refuse(f"DROP {words.found} is not supported: only DROP TABLE and DROP VIEW are")
    if_exists = words.accept("IF", "EXISTS")
    name = words.name()
    words.done()
    return kind(name, place, words.slice(start, words.end), if_exists)


def _create(words: Words, place: Place, start: int) -> CreateTable | CreateView:
    if words.peek() == "OR":
        raise words.refuse("CREATE OR REPLACE is not supported: DROP first, then CREATE")
    if words.accept("TABLE"):
        return _create_table(words, place, start)
    if words.accept("VIEW") or words.accept("MATERIALIZED", "VIEW"):
        return _create_view(words, place, start)
    if words.accept("RECURSIVE", "VIEW") or words.accept("RECURSIVE", "MATERIALIZED", "VIEW"):
        return _create_recursive(words, place, start)
    raise words.refuse(f"CREATE {words.found} is not supported: only CREATE TABLE and CREATE VIEW are")


def _create_view(words: Words, place: Place, start: int) -> CreateView:
    if_not_exists = words.accept("IF", "NOT", "EXISTS")
    name = words.name()
    columns = _in_brackets(words, _view_column) if words.peek() == "(" else []
    names, places = tuple(column for column, _ in columns), tuple(at for _, at in columns)
    query, query_place = _query(words)
    text = words.slice(start, words.end)
    return CreateView(name, place, text, query, query_place, if_not_exists, names, places)


def _view_column(words: Words) -> tuple[str, Place]:
    place, name = words.place, words.name()
    _comment(words)
    if words.peek() not in {",", ")"}:
        raise words.refuse(f"{words.found} after column {name}: a view's columns have the types of its query")
    return name, place


def _create_recursive(words: Words, place: Place, start: int) -> CreateRecursiveView:
    if_not_exists = words.accept("IF", "NOT", "EXISTS")
    name = words.name()
    if words.peek() != "(":
        raise words.refuse(f"a recursive view says its columns and their types: {name} (a BIGINT, …)")
    columns = _in_brackets(words, _column)
    for column in columns:
        if column.is_key or column.lateness:
            raise Refused("a view has neither PRIMARY KEY nor LATENESS: leave it out", place=column.place)
    levels = None
    if words.accept("MAX", "RECURSION", "LEVEL"):
        if not words.peek().isdigit():
            raise words.refuse(f"expected a number, found {words.found}")
        levels = int(words.take().spelled)
    query, query_place = _query(words)
    text, places = words.slice(start, words.end), tuple(column.place for column in columns)
    texts = tuple(column.text for column in columns)
    return CreateRecursiveView(
        name, place, text, query, query_place, if_not_exists, (), places, texts, levels
    )


def _query(words: Words) -> tuple[str, Place]:
    """The query after AS, to the end of the statement, and where it starts."""
    _comment(words)
    if words.peek() != "AS":
        raise words.refuse(f"expected AS and the query of the view, found {words.found}")
    after = words.take().end
    if not words.peek():
        raise words.refuse("the view has no query: write it after AS")
    query = words.slice(after, words.end)
    return query, place_at(words.text, words.text.index(query, after))


def _comment(words: Words) -> None:
    """What is said for people."""
    if words.accept("COMMENT"):
        words.string()


def _create_table(words: Words, place: Place, start: int) -> CreateTable:
    if_not_exists = words.accept("IF", "NOT", "EXISTS")
    name = words.name()
    if words.peek() == "AS":
        raise words.refuse(f"CREATE TABLE … AS is not supported: CREATE VIEW {name} AS keeps it up to date")
    parts = _in_brackets(words, _table_part)
    _comment(words)
    if words.peek():
        raise words.refuse(
            f"{words.peek()} after the columns of a table is not supported: leave it out, the pipeline keeps "
            "the rows itself"
        )
    columns = [part for part in parts if isinstance(part, Column)]
    keys = [part for part in parts if isinstance(part, Key)]
    keys += [Key((column.name,), column.place) for column in columns if column.is_key]
    late = [column for column in columns if column.lateness]
    if len(keys) > 1:
        raise Refused(
            f"table {name} has more than one PRIMARY KEY: write PRIMARY KEY (a, b) once", place=keys[1].place
        )
    if len(late) > 1:
        raise Refused(
            f"table {name} has more than one column with LATENESS: leave it at one", place=late[1].place
        )
    return CreateTable(
        name,
        place,
        words.slice(start, words.end),
        tuple(column.text for column in columns),
        tuple(column.place for column in columns),
        keys[0].names if keys else (),
        keys[0].place if keys else place,
        if_not_exists,
        (late[0].name, late[0].lateness) if late else None,
    )


def _in_brackets(words: Words, read: Callable[[Words], T]) -> list[T]:
    """One or several, between brackets and with commas."""
    words.expect("(")
    found = [read(words)]
    while words.accept(","):
        found.append(read(words))
    words.expect(")")
    return found


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: `text` is what Spark reads of it; `lateness` the text of an interval, or empty."""

    name: str
    place: Place
    text: str
    is_key: bool
    lateness: str


@dataclass(frozen=True, slots=True)
class Key:
    """The primary key of a table."""

    names: tuple[str, ...]
    place: Place


def _table_part(words: Words) -> Column | Key:
    if words.accept("CONSTRAINT"):
        words.name()
        if words.peek() != "PRIMARY":
            raise words.refuse(f"{words.found} is not supported: a table has columns and a PRIMARY KEY")
    place = words.place
    if words.accept("PRIMARY", "KEY"):
        return Key(tuple(_in_brackets(words, Words.name)), place)
    if words.peek() in {"FOREIGN", "UNIQUE", "CHECK", "PERIOD"} and words.peek(1) in {"(", "KEY", "FOR"}:
        raise words.refuse(f"{words.peek()} is not supported: a table has columns and a PRIMARY KEY")
    return _column(words)


def _column(words: Words) -> Column:
    place, start = words.place, words.offset
    name = words.name()
    pieces: list[str] = []
    is_key, lateness, depth = False, "", 0
    while words.peek() and (depth or words.peek() not in {",", ")"}):
        before = words.offset
        if not depth and words.peek() in {"PRIMARY", "LATENESS"}:
            pieces.append(words.slice(start, before))
            if words.accept("LATENESS"):
                lateness = _interval(words, name)
            else:
                words.expect("PRIMARY", "KEY")
                is_key = True
            start = words.offset
            continue
        if not depth and words.peek() in {"DEFAULT", "GENERATED", "REFERENCES", "UNIQUE", "CHECK"}:
            raise words.refuse(f"{words.peek()} of column {name} is not supported: leave it out")
        spelled = words.take().spelled
        depth += (spelled in {"(", "<"}) - (spelled in {")", ">"})
    pieces.append(words.slice(start, words.offset))
    return Column(name, place, " ".join(filter(None, pieces)), is_key, lateness)


def _interval(words: Words, column: str) -> str:
    """The words of an interval, up to what else a column may say."""
    start = words.offset
    if words.peek() != "INTERVAL":
        raise words.refuse(f"LATENESS of column {column} is an interval: LATENESS INTERVAL '1 hour'")
    while words.peek() not in {"", ",", ")", "NOT", "PRIMARY", "COMMENT"}:
        words.take()
    return words.slice(start, words.offset)
