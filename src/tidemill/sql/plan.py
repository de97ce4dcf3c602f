"""From a query to the nodes of its view."""

from dataclasses import replace

from tidemill.pipeline.errors import Refused
from tidemill.sql import catalyst
from tidemill.sql.catalog import Addition, Catalog
from tidemill.sql.catalyst import Frame, Frames
from tidemill.sql.lower import lower
from tidemill.sql.recursion import fixed_point
from tidemill.sql.relation import AnyRelation
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

    Raises `Refused` with the construct, its place where that is known, and what to write instead.
    """
    register(frames, catalog)
    place = query.query_place if isinstance(query, CreateView) else None
    try:
        with catalyst.told_by_spark():
            return lower(_read(frames, name, query), catalog, name, epoch)
    except Refused as error:
        if place and error.place and error.place < place:
            error.place = None  # that of another text: a function in SQL which the query calls
        error.happened_in(f"view {name}", place)
        raise


def _read(frames: Frames, name: str, query: CreateView | Frame) -> AnyRelation:
    """The query as a relation with the columns of the view."""
    if not isinstance(query, CreateView):
        return catalyst.read(frames, query)
    declared = None
    if isinstance(query, CreateRecursiveView):
        declared = catalyst.columns_of(frames.spark, query)
        frames.register(name, declared)
    frame = frames.query(query.query, query.query_place.line, query.query_place.column)
    relation = catalyst.read(frames, frame, query.names)
    if isinstance(query, CreateRecursiveView):
        return fixed_point(relation, query, declared)
    return _renamed(relation, query.names) if query.names else relation


def _renamed(query: AnyRelation, names: tuple[str, ...]) -> AnyRelation:
    fields = zip(query.schema["fields"], names, strict=True)
    schema = {"type": "struct", "fields": [{**field, "name": name} for field, name in fields]}
    return replace(query, schema=schema)
