"""From a query to the nodes of its view."""

from tidemill.pipeline.errors import Refused, UnsupportedType
from tidemill.sql import catalyst
from tidemill.sql.catalog import Addition, Catalog
from tidemill.sql.catalyst import Frame, Frames
from tidemill.sql.lower import lower
from tidemill.sql.statements import CreateView


def register(frames: Frames, catalog: Catalog) -> None:
    """Make the tables and views of a catalog known to Spark; those that are not in it are forgotten."""
    schemas = {name: table.schema for name, table in catalog.tables.items()}
    schemas |= {name: view.schema for name, view in catalog.views.items()}
    for name in frames.names - schemas.keys():
        frames.forget(name)
    for name, schema in schemas.items():
        frames.register(name, schema)


def plan_view(
    frames: Frames, catalog: Catalog, name: str, query: CreateView | Frame, epoch: int = 0
) -> Addition:
    """The catalog's circuit with the nodes of a view appended. Neither argument is changed.

    Raises `Refused` with the construct, its line where that is known, and what to write instead.
    """
    register(frames, catalog)
    start = f"line {query.place.line}: " if isinstance(query, CreateView) else ""
    try:
        if isinstance(query, CreateView):
            query = frames.query(query.query, query.query_place.line, query.query_place.column)
        relation = catalyst.read(frames, query)
        _refuse_equal_names([field["name"] for field in relation.schema["fields"]])
        return lower(relation, catalog, name, epoch)
    except Refused as error:
        kind = UnsupportedType if isinstance(error, UnsupportedType) else Refused
        raise kind(f"view {name}: {'' if 'line ' in str(error) else start}{error}") from error


def _refuse_equal_names(columns: list[str]) -> None:
    folded = [column.lower() for column in columns]
    for column in columns:
        if folded.count(column.lower()) > 1:
            raise Refused(f"column {column} is there twice: give each column a name of its own, with AS")
