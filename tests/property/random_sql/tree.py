"""Pieces of SQL: trees that are text, so that any part of a query can be replaced by a simpler one."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

Place = tuple[int, ...]
"""Where a piece is in another: which of the pieces, which of its pieces, and so on."""


@dataclass(frozen=True, slots=True)
class Column:
    """Of a relation, or of what a place in a query can see; there the name has its alias before it."""

    name: str
    type: str


Columns = tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Sql:
    """A value, whose sort is its type, or a relation, whose sort is its columns and which fits after FROM.

    The template holds {0}, {1}, … for the pieces. One that it names twice is the same at both places.
    """

    sort: str | Columns
    template: str
    pieces: tuple["Sql", ...] = ()

    def __str__(self) -> str:
        return self.template.format(*self.pieces)

    @property
    def columns(self) -> Columns:
        assert isinstance(self.sort, tuple)
        return self.sort

    def places(self) -> Iterator[tuple[Place, "Sql"]]:
        """Every piece in it, itself first."""
        yield (), self
        for at, piece in enumerate(self.pieces):
            for place, inner in piece.places():
                yield (at, *place), inner

    def put(self, place: Place, piece: "Sql") -> "Sql":
        """With this piece instead of the one that is there."""
        if not place:
            return piece
        pieces = list(self.pieces)
        pieces[place[0]] = pieces[place[0]].put(place[1:], piece)
        return replace(self, pieces=tuple(pieces))


@dataclass(slots=True)
class Text:
    """Puts a piece together: a call takes a smaller one in, and gives what stands for it in the template."""

    pieces: list[Sql] = field(default_factory=list)

    def __call__(self, piece: Sql) -> str:
        self.pieces.append(piece)
        return f"{{{len(self.pieces) - 1}}}"

    def all(self, pieces: Iterable[Sql]) -> str:
        return ", ".join(map(self, pieces))

    def named(self, pieces: Sequence[Sql], columns: Columns) -> str:
        """A list to select, which gives these columns."""
        return ", ".join(
            f"{self(piece)} AS {column.name}" for piece, column in zip(pieces, columns, strict=True)
        )

    def done(self, sort: str | Columns, template: str) -> Sql:
        return Sql(sort, template, tuple(self.pieces))


def seen(relation: Sql | Columns, alias: str) -> Columns:
    """The columns of a relation under an alias."""
    columns = relation.columns if isinstance(relation, Sql) else relation
    return tuple(Column(f"{alias}.{column.name}", column.type) for column in columns)


def leaf(column: Column) -> Sql:
    """The column as a value."""
    return Sql(column.type, column.name)


def names(columns: Iterable[Column]) -> str:
    return ", ".join(column.name for column in columns)
