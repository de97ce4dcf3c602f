"""The pipeline of the demo, put on stage: opened, with its tables, views and rows, and shown."""

import time
from collections.abc import Callable
from pathlib import Path
from threading import Event

from tidemill.api.explain import read_script
from tidemill.api.pipeline import Pipeline
from tidemill.app.demo import auctions, inventing
from tidemill.app.demo.figures import Figures
from tidemill.app.demo.lives import Course
from tidemill.app.demo.show import Show
from tidemill.pipeline.errors import Refused, StepAborted
from tidemill.pipeline.types import schema_from_spark
from tidemill.sql.statements import CreateTable, parse


def perform(
    folder: Path, file: Path | None, tell: Callable[[Figures], None], *, finish: Event, end: Event
) -> None:
    """Open a pipeline on a Spark of its own, create what the file says, or the auctions, and show it.

    Raises as `read_script`, `prepare`, and `Refused` for a view that fails on the rows.
    """
    text = read_script(file or auctions.SCRIPT)  # before Spark is started
    with Pipeline(None, folder) as pipeline:
        tell(Figures("planning"))
        show = Show(pipeline, prepare(pipeline, file, text), tell)
        try:
            show.run(finish, end)
        except StepAborted as error:
            raise unfit(error) from error


def prepare(pipeline: Pipeline, file: Path | None, text: str) -> Course:
    """Create the tables and views of the text, which is the file's or that of the auctions; rows for them.

    Raises `Refused` for what cannot be created, with its place in the file, and for a file without views.
    """
    script = file or auctions.SCRIPT
    pipeline.sql(text, file=str(script))
    if not pipeline.views:
        raise Refused(f"{script}: there is no view to show: add a CREATE VIEW")
    start_us = time.time_ns() // 1000
    return course_of(pipeline, text, start_us) if file else auctions.house(start_us)


def unfit(error: StepAborted) -> Refused:
    """What to say of a view that fails on rows for which nobody but the demo is to blame."""
    reason = str(error).partition(" (step ")[0]
    return Refused(
        f"view {error.view} fails on an invented row, as it would in Spark: {reason} "
        "Write it so that any row will do: try_divide, try_cast, a WHERE"
    )


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
