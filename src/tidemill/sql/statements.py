"""Scripts: the statements of an SQL text, each with its place and its own words.

Only heads are understood here: names, the column list of a table, its primary key. Types and queries stay the
text that the user wrote, for Spark to read.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import sqlglot
from sqlglot import Token, TokenType
from sqlglot.errors import SqlglotError

from tidemill.pipeline.errors import Refused


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in a script; both count from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


@dataclass(frozen=True, slots=True)
class Statement:
    """What all statements have: the name they are about, their place and their text."""

    name: str
    place: Place
    text: str


@dataclass(frozen=True, slots=True)
class CreateTable(Statement):
    """`columns` are definitions that Spark's own parser reads, each at its place; `key` names the primary
    key's columns; `lateness` is a column and the interval by which its values may be behind."""

    columns: tuple[str, ...]
    places: tuple[Place, ...]
    key: tuple[str, ...]
    if_not_exists: bool
    lateness: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class CreateView(Statement):
    """`query` is verbatim, comments and hints included; `query_place` is where it starts."""

    query: str
    query_place: Place
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class CreateRecursiveView(CreateView):
    """A view whose query may refer to the view itself, which therefore says its `columns`.

    `levels` is how many iterations may be needed; None for the default.
    """

    columns: tuple[str, ...]
    places: tuple[Place, ...]
    levels: int | None


@dataclass(frozen=True, slots=True)
class DropTable(Statement):
    if_exists: bool


@dataclass(frozen=True, slots=True)
class DropView(Statement):
    if_exists: bool


AnyStatement = CreateTable | CreateView | CreateRecursiveView | DropTable | DropView


def parse(text: str) -> tuple[AnyStatement, ...]:
    """The statements of a script, in order. Raises `Refused`, with line and column, for any other kind."""
    try:
        tokens = sqlglot.tokenize(text, read="spark")
    except SqlglotError as error:
        raise Refused(f"the SQL text cannot be split into words: {error}") from error
    return tuple(_statement(Words(text, part, end)) for part, end in _split(text, tokens))


def _split(text: str, tokens: list[Token]) -> Iterator[tuple[list[Token], int]]:
    """The tokens of each statement, and the offset where it ends."""
    part: list[Token] = []
    for token in tokens:
        if token.token_type is not TokenType.SEMICOLON:
            part.append(token)
        elif part:
            yield part, token.start
            part = []
    if part:
        yield part, len(text)


class Words:
    """The words of one statement, taken one by one."""

    def __init__(self, text: str, tokens: list[Token], end: int) -> None:
        self.text = text
        self._tokens = tokens
        self._next = 0
        self.end = end

    def place_at(self, offset: int) -> Place:
        line_start = self.text.rfind("\n", 0, offset) + 1
        return Place(self.text.count("\n", 0, offset) + 1, offset - line_start + 1)

    @property
    def offset(self) -> int:
        """Where the next word starts, or the statement ends."""
        token = self._peek()
        return token.start if token else self.end

    @property
    def place(self) -> Place:
        return self.place_at(self.offset)

    def slice(self, start: int, end: int) -> str:
        return self.text[start:end].strip()

    def _peek(self) -> Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def spelled(self, token: Token) -> str:
        return self.text[token.start : token.end + 1]

    def peek(self) -> str:
        """The next word in capitals; quoted names keep their quotes. Empty at the end."""
        token = self._peek()
        return self.spelled(token).upper() if token else ""

    def take(self) -> Token:
        token = self._peek()
        if token is None:
            raise Refused(f"{self.place}: the statement ends too early")
        self._next += 1
        return token

    def accept(self, *words: str) -> bool:
        """Take these words if they come next."""
        here = self._next
        # sqlglot makes one token of some pairs, such as PRIMARY KEY.
        if self.peek().split() == list(words):
            self._next += 1
            return True
        for word in words:
            if self.peek() != word:
                self._next = here
                return False
            self._next += 1
        return True

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            raise self.refuse(
                f"expected {' '.join(words)}, found {self.peek() or 'the end of the statement'}"
            )

    def refuse(self, message: str) -> Refused:
        return Refused(f"{self.place}: {message}")

    def name(self) -> str:
        """A name, without its quotes."""
        if not self.peek() or not (self.peek()[0] == "`" or self.peek().replace("_", "a").isalnum()):
            raise self.refuse(f"expected a name, found {self.peek() or 'the end of the statement'}")
        token = self.take()
        if self.peek() == ".":
            raise self.refuse(f"names have one part: write {token.text}, without a catalog or schema")
        return token.text

    def done(self) -> None:
        if self.peek():
            raise self.refuse(f"{self.peek()} is not understood here")


def _statement(words: Words) -> AnyStatement:
    place, start = words.place, words.offset
    if words.accept("CREATE"):
        return _create(words, place, start)
    if words.accept("DROP"):
        return _drop(words, place, start)
    raise words.refuse(
        f"{words.peek()} is not a statement of a pipeline, which knows CREATE TABLE, CREATE VIEW, "
        "DROP TABLE and DROP VIEW"
    )


def _drop(words: Words, place: Place, start: int) -> DropTable | DropView:
    kind: type[DropTable | DropView]
    if words.accept("TABLE"):
        kind = DropTable
    elif words.accept("VIEW") or words.accept("MATERIALIZED", "VIEW"):
        kind = DropView
    else:
        raise words.refuse(f"DROP {words.peek()} is not supported: only DROP TABLE and DROP VIEW are")
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
    raise words.refuse(f"CREATE {words.peek()} is not supported: only CREATE TABLE and CREATE VIEW are")


def _create_view(words: Words, place: Place, start: int) -> CreateView:
    if_not_exists = words.accept("IF", "NOT", "EXISTS")
    name = words.name()
    if words.peek() == "(":
        raise words.refuse("a column list of a view is not supported: name the columns in the query, with AS")
    query, query_place = _query(words)
    return CreateView(name, place, words.slice(start, words.end), query, query_place, if_not_exists)


def _create_recursive(words: Words, place: Place, start: int) -> CreateRecursiveView:
    if_not_exists = words.accept("IF", "NOT", "EXISTS")
    name = words.name()
    if words.peek() != "(":
        raise words.refuse(f"a recursive view says its columns and their types: {name} (a BIGINT, …)")
    words.expect("(")
    columns: list[str] = []
    places: list[Place] = []
    while not columns or words.accept(","):
        places.append(words.place)
        column = _column(words)
        if column.is_key or column.lateness:
            raise words.refuse("a view has neither PRIMARY KEY nor LATENESS")
        columns.append(column.text)
    words.expect(")")
    levels = None
    if words.accept("MAX", "RECURSION", "LEVEL"):
        if not words.peek().isdigit():
            raise words.refuse(f"expected a number, found {words.peek() or 'the end'}")
        levels = int(words.take().text)
    query, query_place = _query(words)
    text = words.slice(start, words.end)
    columns_at = tuple(columns), tuple(places)
    return CreateRecursiveView(name, place, text, query, query_place, if_not_exists, *columns_at, levels)


def _query(words: Words) -> tuple[str, Place]:
    """The query after AS, to the end of the statement, and where it starts."""
    if words.peek() != "AS":
        raise words.refuse(f"expected AS and the query of the view, found {words.peek() or 'the end'}")
    after = words.take().end + 1
    if not words.peek():
        raise words.refuse("the view has no query")
    query = words.slice(after, words.end)
    return query, words.place_at(words.text.index(query, after))


def _create_table(words: Words, place: Place, start: int) -> CreateTable:
    if_not_exists = words.accept("IF", "NOT", "EXISTS")
    name = words.name()
    words.expect("(")
    columns: list[str] = []
    places: list[Place] = []
    keys: list[tuple[str, ...]] = []
    lateness: list[tuple[str, str]] = []
    while True:
        if words.accept("CONSTRAINT"):
            words.name()
            words.expect("PRIMARY", "KEY")
            keys.append(_names(words))
        elif words.accept("PRIMARY", "KEY"):
            keys.append(_names(words))
        else:
            places.append(words.place)
            column = _column(words)
            columns.append(column.text)
            keys.extend([(column.name,)] * column.is_key)
            lateness.extend([(column.name, column.lateness)] if column.lateness else [])
        if not words.accept(","):
            break
    words.expect(")")
    if words.peek():
        raise words.refuse(f"{words.peek()} after the columns of a table is not supported: leave it out")
    if len(keys) > 1:
        raise Refused(f"{place}: table {name} has more than one PRIMARY KEY: write PRIMARY KEY (a, b) once")
    if len(lateness) > 1:
        raise Refused(f"{place}: table {name} has more than one column with LATENESS: leave it at one")
    text = words.slice(start, words.end)
    of_columns = tuple(columns), tuple(places), keys[0] if keys else ()
    return CreateTable(name, place, text, *of_columns, if_not_exists, *lateness)


def _names(words: Words) -> tuple[str, ...]:
    words.expect("(")
    names = [words.name()]
    while words.accept(","):
        names.append(words.name())
    words.expect(")")
    return tuple(names)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: `text` is what Spark reads of it; `lateness` the text of an interval, or empty."""

    name: str
    text: str
    is_key: bool
    lateness: str


def _column(words: Words) -> Column:
    if words.peek() in {"FOREIGN KEY", "FOREIGN", "UNIQUE", "CHECK", "PERIOD"}:
        raise words.refuse(f"{words.peek()} is not supported: a table has columns and a PRIMARY KEY")
    start = words.offset
    name = words.name()
    pieces: list[str] = []
    is_key, lateness, depth = False, "", 0
    while words.peek() and (depth or words.peek() not in {",", ")"}):
        before = words.offset
        ours = not depth and words.peek() in {"PRIMARY", "PRIMARY KEY", "LATENESS"}
        if ours:
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
        spelled = words.spelled(words.take())
        if spelled in {"(", ")", "<", ">", ">>", "<>"}:
            depth += spelled.count("(") + spelled.count("<") - spelled.count(")") - spelled.count(">")
    pieces.append(words.slice(start, words.offset))
    return Column(name, " ".join(filter(None, pieces)), is_key, lateness)


def _interval(words: Words, column: str) -> str:
    """The words of an interval, up to what else a column may say."""
    start = words.offset
    if words.peek() != "INTERVAL":
        raise words.refuse(f"LATENESS of column {column} is an interval: LATENESS INTERVAL '1 hour'")
    while words.peek() not in {"", ",", ")", "NOT", "PRIMARY", "PRIMARY KEY", "COMMENT"}:
        words.take()
    return words.slice(start, words.offset)
