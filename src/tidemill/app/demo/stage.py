"""The pipeline of the demo, put on stage: opened, with its tables, views and rows, and shown."""

import time
from collections.abc import Callable
from pathlib import Path
from threading import Event

from tidemill.api.pipeline import Pipeline
from tidemill.app.demo import auctions, inventing
from tidemill.app.demo.figures import Figures
from tidemill.app.demo.lives import Course
from tidemill.app.demo.show import Show
from tidemill.pipeline.types import schema_from_spark
from tidemill.sql.statements import CreateTable, parse


def perform(
    folder: Path, file: Path | None, tell: Callable[[Figures], None], *, finish: Event, end: Event
) -> None:
    """Open a pipeline on a Spark of its own, create what the file says, or the auctions, and show it.

    Raises `Refused` for what cannot be created, with its place in the file.
    """
    with Pipeline(None, folder) as pipeline:
        tell(Figures("planning"))
        script = file or auctions.SCRIPT
        text = script.read_text(encoding="utf-8")
        pipeline.sql(text, file=str(script))
        start_us = time.time_ns() // 1000
        course = course_of(pipeline, text, start_us) if file else auctions.house(start_us)
        Show(pipeline, course, tell).run(finish, end)


def course_of(pipeline: Pipeline, text: str, start_us: int) -> Course:
    """Invented rows for the tables of a script, by their columns and primary keys."""
    statements = {one.name: one for one in parse(text) if isinstance(one, CreateTable)}
    tables = []
    for name in pipeline.tables:
        schema = schema_from_spark(pipeline.table(name).schema.jsonValue())
        folded = [column.lower() for column in schema.names]
        key = tuple(folded.index(column.lower()) for column in statements[name].key)
        tables.append((name, schema, key))
    return inventing.anything(tables, start_us)
