"""Waiting for tasks on the command line, with a bar for whoever watches."""

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tidemill.store import Document, Store
from tidemill.tasks.waiting import Waiting


async def wait_ended(
    store: Store, ids: Sequence[str], ended: Callable[[], None]
) -> dict[str, Document | None]:
    """The tasks once all have ended, None for one that is not there any more; `ended` is called for each."""
    found: dict[str, Document | None] = {}
    all_there = asyncio.Event()

    def note(key: str, document: Document | None) -> None:
        found[key] = document
        ended()
        if len(found) == len(ids):
            all_there.set()

    waiting = Waiting(store, note)
    waiting.add(*ids)
    task = asyncio.create_task(waiting.run())
    try:
        await all_there.wait()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return {key: found[key] for key in ids}


@contextmanager
def progress_bar(total: int) -> Iterator[Callable[[], None]]:
    """A bar on standard error, one step further at each call; where that is no terminal, nothing is drawn."""
    columns = (TextColumn("tasks"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    shown = sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not shown) as progress:
        bar = progress.add_task("tasks", total=total)
        yield lambda: progress.advance(bar)
