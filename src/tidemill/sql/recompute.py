"""A view as Spark computes it from scratch, on the rows of the tables: what the kept one has to equal."""

from collections.abc import Callable, Mapping

import pyarrow as pa

from tidemill.pipeline.errors import PipelineError, Refused
from tidemill.pipeline.ingest import canonical
from tidemill.pipeline.types import conform, plain_schema, schema_from_spark
from tidemill.pipeline.zset import ZSet, concat, consolidate
from tidemill.sql import catalyst
from tidemill.sql.catalog import Catalog, View
from tidemill.sql.catalyst import Frame, Frames


class Recompute:
    """The views of a catalog over `tables`, which gives the rows of each by name; views below are expanded.

    `made` are the frames of which views were made that have no text. now() is what `clock_ms` says. Nothing
    runs before the frames do, except for views that refer to themselves: those are iterated at once.
    """

    def __init__(
        self,
        frames: Frames,
        catalog: Catalog,
        made: Mapping[str, Frame],
        tables: Callable[[str], Frame],
        clock_ms: int,
    ) -> None:
        self._frames = frames
        self._catalog = catalog
        self._made = made
        self._tables = tables
        self._clock_ms = clock_ms

    def view(self, name: str) -> Frame:
        """The rows of a view. Raises `Refused` if it, or one below it, was made of a frame that is gone."""
        entry = self._catalog.views[name]
        query = entry.query or self._made.get(name)
        if query is None:
            raise Refused(
                f"view {name} was made of a DataFrame before the pipeline was opened, and that is not kept: "
                "make the same frame of p.view(table).to_spark() and compare with that, or drop the view and "
                "create it again"
            )
        if entry.levels:
            return self._fixed_point(name, entry)
        return self._query(query, name).toDF(*(field["name"] for field in entry.schema["fields"]))

    def _query(self, query: str | Frame, name: str, itself: Frame | None = None) -> Frame:
        """A query in which a view may name tables, the views before it, and maybe itself."""
        views = list(self._catalog.views)
        before = views[: views.index(name)]

        def named(other: str) -> Frame | None:
            if other in self._catalog.tables:
                return self._tables(other)
            if other in before:
                return self.view(other)
            return itself if other == name else None

        return catalyst.compute(self._frames, query, named, self._clock_ms)

    def _fixed_point(self, name: str, entry: View) -> Frame:
        """Computed from itself, at first from nothing, until nothing changes."""
        schema = schema_from_spark(entry.schema)
        rows = ZSet.empty(schema)
        for _ in range(entry.levels + 1):
            held = pa.Table.from_batches([rows.rows]).cast(plain_schema(schema))
            itself = catalyst.hold(self._frames, held, entry.schema)
            found = as_zset(self._query(entry.query, name, itself).toArrow(), schema)
            if not len(difference(found, rows)):
                return itself
            rows = found
        raise PipelineError(f"view {name}: Spark has not come to an end after {entry.levels} levels")


def as_zset(rows: pa.Table, schema: pa.Schema) -> ZSet:
    """Rows that Spark gave, in the form in which equal ones are the same."""
    columns = [column.combine_chunks() for column in rows.columns]
    found = conform(columns, schema)
    return ZSet.of(conform([canonical(column) for column in found.columns], schema))


def difference(one: ZSet, other: ZSet) -> ZSet:
    """The rows that one has more often than the other; with negative weights, those it has less often."""
    return consolidate(concat([one, other.negate()], one.schema))
