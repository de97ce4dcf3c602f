"""From a query to the nodes of its view."""

from tidemill.pipeline.errors import Refused, UnsupportedType
from tidemill.pipeline.ingest import WEIGHT
from tidemill.sql import catalyst
from tidemill.sql.catalog import Addition, Catalog
from tidemill.sql.catalyst import Frame, Frames
from tidemill.sql.lower import lower
from tidemill.sql.recursion import fixed_point
from tidemill.sql.statements import CreateRecursiveView, CreateView


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
    declared = None
    if isinstance(query, CreateRecursiveView):
        declared = catalyst.columns_of(frames.spark, query)
        frames.register(name, declared)
    start = f"the query of line {query.query_place.line}: " if isinstance(query, CreateView) else ""
    try:
        if isinstance(query, CreateView):
            frame = frames.query(query.query, query.query_place.line, query.query_place.column)
        else:
            frame = query
        relation = catalyst.read(frames, frame)
        _check_names([field["name"] for field in relation.schema["fields"]])
        if isinstance(query, CreateRecursiveView):
            relation = fixed_point(relation, query, declared)
        return lower(relation, catalog, name, epoch)
    except Refused as error:
        kind = UnsupportedType if isinstance(error, UnsupportedType) else Refused
        text = str(error)
        raise kind(f"view {name}: {'' if text.startswith('line ') else start}{text}") from error


def _check_names(columns: list[str]) -> None:
    folded = [column.lower() for column in columns]
    for column in columns:
        if column.lower() == WEIGHT:
            raise Refused(f"the name {column} is taken by the weights of changes: choose another, with AS")
        if folded.count(column.lower()) > 1:
            raise Refused(f"column {column} is there twice: give each column a name of its own, with AS")
