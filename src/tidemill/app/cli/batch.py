"""`tidemill batch`: the numbered groups of a remote queue's tasks, straight from the store."""

import asyncio
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
import typer

from tidemill.app.archive import archive
from tidemill.app.cli.contents import save
from tidemill.app.cli.exits import Exit
from tidemill.app.cli.options import ConfigFlag, DataFlag, StoreFlag, local_settings, opened
from tidemill.app.cli.output import JsonFlag, print_facts, print_json, print_rows, say
from tidemill.app.cli.task_wait import progress_bar
from tidemill.app.settings import Settings
from tidemill.tasks.batches import Batch, Batches
from tidemill.tasks.blobs import Shelves
from tidemill.tasks.errors import IllegalMove
from tidemill.tasks.queue import get_queue

app = typer.Typer(add_completion=False, help="Batches of jobs.", no_args_is_help=True)

COLUMNS = ["number", "size", "tasks", "ended", "percent", "full", "stable", "done"]
LOOK_S = 1.0

Queue: TypeAlias = Annotated[str, typer.Argument(help="Name of the queue")]
Number: TypeAlias = Annotated[int, typer.Argument(help="Number of the batch")]


@app.command(name="list")
def list_(
    queue: Queue,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many at most")] = 20,
    below: Annotated[int | None, typer.Option("--below", help="Those with lower numbers")] = None,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """List the batches of a queue, newest first. Example: tidemill batch list default"""
    found = asyncio.run(_list(local_settings(store, data, config), queue, limit, below))
    if as_json:
        print_json(found)
    else:
        print_rows(found, COLUMNS)


@app.command()
def show(
    queue: Queue,
    number: Number,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Show how far a batch is. Example: tidemill batch show default 3"""
    _print(asyncio.run(_show(local_settings(store, data, config), queue, number)), as_json)


@app.command()
def wait(
    queue: Queue,
    number: Number,
    timeout: Annotated[float | None, typer.Option("--timeout", min=0, help="Seconds at most")] = None,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Wait until all tasks of a batch have ended; 1 when time is up, or unless all have succeeded.

    Example: tidemill batch wait default 3 --timeout 600
    """
    batch = asyncio.run(_wait(local_settings(store, data, config), queue, number, timeout))
    _print(batch, as_json)
    if not batch.done or batch.counts.get("succeeded", 0) != batch.tasks:
        raise typer.Exit(Exit.FAILED)


@app.command()
def results(
    queue: Queue,
    number: Number,
    output: Annotated[Path, typer.Option("--output", "-o", help="The zip file to write")],
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
) -> None:
    """Save the results of a batch that is done. Example: tidemill batch results default 3 -o results.zip"""
    asyncio.run(_results(local_settings(store, data, config), queue, number, output))
    say(f"results are in {output}")


def _print(batch: Batch, as_json: bool) -> None:
    if as_json:
        print_json(msgspec.to_builtins(batch))
    else:
        print_facts(msgspec.to_builtins(batch))


async def _list(settings: Settings, queue: str, limit: int, below: int | None) -> list[dict[str, Any]]:
    async with opened(settings, create=False) as store:
        found = await Batches(store).list(queue, below, limit)
        if not found:
            await get_queue(store, queue)
        return [msgspec.to_builtins(batch) for batch in found]


async def _show(settings: Settings, queue: str, number: int) -> Batch:
    async with opened(settings, create=False) as store:
        return await Batches(store).get(queue, number)


async def _wait(settings: Settings, queue: str, number: int, timeout_s: float | None) -> Batch:
    async with opened(settings, create=False) as store:
        batches = Batches(store)
        batch = await batches.get(queue, number)
        with progress_bar(batch.taken) as step:
            shown = 0
            try:
                async with asyncio.timeout(timeout_s):
                    while True:
                        for _ in range(batch.ended - shown):
                            step()
                        shown = max(shown, batch.ended)
                        if batch.done:
                            return batch
                        batch = await batches.wait(queue, number, LOOK_S)
            except TimeoutError:
                return await batches.get(queue, number)


async def _results(settings: Settings, queue: str, number: int, output: Path) -> None:
    async with opened(settings, create=False) as store:
        batch = await Batches(store).get(queue, number)
        if not batch.done:
            raise IllegalMove(f"batch {number} of {queue!r} is not done; see `tidemill batch wait`")
        await save(archive(store, Shelves(store), queue, number), output)
