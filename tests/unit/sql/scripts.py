"""Scripts planned on a session, without a pipeline."""

from dataclasses import replace

from pyspark.sql import SparkSession

from tidemill.sql.catalog import Addition, Catalog, Table, View
from tidemill.sql.catalyst import Frame, Frames, table_schema
from tidemill.sql.plan import plan_view, register
from tidemill.sql.statements import CreateTable, CreateView, parse


class Script:
    """A catalog that grows statement by statement."""

    def __init__(self, spark: SparkSession) -> None:
        self.frames = Frames(spark)
        self.catalog = Catalog()

    def run(self, text: str) -> Catalog:
        for statement in parse(text):
            if isinstance(statement, CreateTable):
                schema, key = table_schema(self.frames.spark, statement)
                table = Table(schema, key, key or None)
                self.catalog = replace(self.catalog, tables={**self.catalog.tables, statement.name: table})
            elif isinstance(statement, CreateView):
                self.view(statement.name, statement)
        return self.catalog

    def view(self, name: str, query: CreateView | Frame) -> Addition:
        addition = plan_view(self.frames, self.catalog, name, query)
        tables = dict(self.catalog.tables)
        for table, key in addition.shard_keys.items():
            tables[table] = replace(tables[table], shard_key=key)
        for table, position in addition.sources.items():
            tables[table] = replace(tables[table], position=position)
        views = {**self.catalog.views, name: View(addition.schema, addition.position)}
        self.catalog = Catalog(tables, views, addition.circuit)
        return addition

    def table(self, name: str) -> Frame:
        register(self.frames, self.catalog)
        return self.frames.frame(name)
