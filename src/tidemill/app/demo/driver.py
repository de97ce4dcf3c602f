"""The process that runs the demo's pipeline, a child of the node.

It tells its `Figures` on standard output. On standard input it is told to `finish`; when that input ends, so
does the process, whatever has become of its parent.
"""

import argparse
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import msgspec

import tidemill
from tidemill.app.demo import auctions, inventing
from tidemill.app.demo.figures import Figures
from tidemill.app.demo.lives import Course
from tidemill.app.demo.show import Show
from tidemill.base.errors import TidemillError
from tidemill.pipeline.errors import PipelineError, Refused
from tidemill.pipeline.types import schema_from_spark
from tidemill.sql.statements import CreateTable, parse

if TYPE_CHECKING:
    from tidemill.api.pipeline import Pipeline

_PATIENCE_S = 5.0


class Leash:
    """What is said on standard input. When that ends the process does too, at the latest after a while."""

    def __init__(self, source: TextIO) -> None:
        self.finish, self.end = threading.Event(), threading.Event()
        self._source = source
        threading.Thread(target=self._listen, name="leash", daemon=True).start()

    def _listen(self) -> None:
        for text in self._source:
            if text.strip() == "finish":
                self.finish.set()
        self.end.set()
        self.finish.set()
        time.sleep(_PATIENCE_S)
        os._exit(1)


def main() -> None:
    """Run the demo's pipeline in a folder; with a file of SQL, one by that, on invented rows."""
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=Path)
    options.add_argument("--sql", type=Path)
    given = options.parse_args()
    tell = _teller()
    try:
        run(given.folder, given.sql, Leash(sys.stdin), tell)
    except TidemillError as error:
        tell(Figures("failed", str(error), error.code))
    except ModuleNotFoundError as error:
        tell(Figures("failed", f"{error}: pip install 'tidemill[spark,java]'", "demo.no_spark"))
    except Exception as error:
        traceback.print_exc()
        tell(Figures("failed", f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"))


def run(folder: Path, file: Path | None, leash: Leash, tell: Callable[[Figures], None]) -> None:
    """Open the pipeline, create what the script says, and show it until told to stop."""
    tell(Figures("starting"))
    with tidemill.Pipeline(None, folder) as pipeline:
        tell(Figures("planning"))
        script = file or auctions.SCRIPT
        text = script.read_text(encoding="utf-8")
        try:
            pipeline.sql(text)
        except PipelineError as error:
            raise Refused(f"{script}: {error}") from error
        start_us = time.time_ns() // 1000
        course = course_of(pipeline, text, start_us) if file else auctions.house(start_us)
        Show(pipeline, course, tell).run(leash.finish, leash.end)


def course_of(pipeline: "Pipeline", text: str, start_us: int) -> Course:
    """Invented rows for the tables of a script, by their columns and primary keys."""
    statements = {one.name: one for one in parse(text) if isinstance(one, CreateTable)}
    tables = []
    for name in pipeline.tables:
        schema = schema_from_spark(pipeline.table(name).schema.jsonValue())
        folded = [column.lower() for column in schema.names]
        key = tuple(folded.index(column.lower()) for column in statements[name].key)
        tables.append((name, schema, key))
    return inventing.anything(tables, start_us)


def _teller() -> Callable[[Figures], None]:
    """Tells on what was standard output; whatever else is printed there goes to standard error now."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def tell(figures: Figures) -> None:
        out.write(msgspec.json.encode(figures) + b"\n")

    return tell


if __name__ == "__main__":
    main()
