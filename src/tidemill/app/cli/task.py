"""`tidemill task`: tasks, straight in the store."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
import typer

from tidemill.app.audit import audited
from tidemill.app.cli.exits import Exit
from tidemill.app.cli.options import ConfigFlag, DataFlag, StoreFlag, local_settings, opened
from tidemill.app.cli.output import JsonFlag, instant, person, print_facts, print_json, print_rows, say
from tidemill.app.cli.task_wait import progress_bar, wait_ended
from tidemill.app.errors import NotFound
from tidemill.app.settings import Settings
from tidemill.app.task_filter import NEWEST_FIRST, conditions, sorting
from tidemill.app.task_orders import MOST_TASKS, NewTask, check_payload, orders_of
from tidemill.app.task_views import document_view, task_view
from tidemill.store import Store
from tidemill.tasks.blobs import Shelves
from tidemill.tasks.errors import BadTask
from tidemill.tasks.logs import follow
from tidemill.tasks.pieces import Stream
from tidemill.tasks.queue import get_queue
from tidemill.tasks.registry import Registry
from tidemill.tasks.status import SUCCEEDED
from tidemill.tasks.task import TASKS

app = typer.Typer(add_completion=False, help="Tasks in their queues.", no_args_is_help=True)

COLUMNS = ["id", "queue", "state", "node", "attempt", "key", "ctime", "description"]
ENDED = ["id", "state", "node", "attempt", "reason"]
INSTANTS = ("ctime", "mtime", "begun", "ended", "not_before", "expire")

Task: TypeAlias = Annotated[str, typer.Argument(help="Id or key of the task", metavar="TASK")]
Tasks: TypeAlias = Annotated[
    list[str] | None, typer.Argument(help="Ids or keys of tasks", metavar="[TASK]...", show_default=False)
]
Queues: TypeAlias = Annotated[list[str] | None, typer.Option("--queue", help="Those of this queue")]
Statuses: TypeAlias = Annotated[
    list[str] | None, typer.Option("--status", help="Those of this status, a number or a word such as failed")
]
Nodes: TypeAlias = Annotated[list[str] | None, typer.Option("--node", help="Those of this node")]
Batches: TypeAlias = Annotated[list[int] | None, typer.Option("--batch", help="Those of this batch")]
All: TypeAlias = Annotated[bool, typer.Option("--all", help="All that match the filters")]


@app.command()
def submit(
    queue: Annotated[str, typer.Argument(help="Name of the queue")],
    params: Annotated[
        str | None, typer.Option("--params", help="JSON: an object, or a list for a task of each")
    ] = None,
    params_file: Annotated[
        Path | None, typer.Option("--params-file", help="A file of such JSON; - is standard input")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="A name that no other task has")] = None,
    priority: Annotated[int, typer.Option("--priority", help="The higher, the sooner")] = 0,
    not_before: Annotated[
        str | None, typer.Option("--not-before", help="When it may begin, such as 2027-01-31T08:00Z")
    ] = None,
    description: Annotated[str | None, typer.Option("--description", help="A text")] = None,
    count: Annotated[int, typer.Option("--count", min=1, max=MOST_TASKS, help="How many such tasks")] = 1,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end; 1 unless all succeed")] = False,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a task, or several, and print their ids.

    Example: tidemill task submit demo --params '{"text": "to be"}' --wait
    """
    new = NewTask(
        queue=queue,
        params=_params(params, params_file),
        key=key,
        priority=priority,
        not_before=not_before,
        description=description,
    )
    made = asyncio.run(_submit(local_settings(store, data, config), new, count, wait))
    if as_json:
        print_json(made)
    elif wait:
        print_rows(made, ENDED)
    else:
        typer.echo("\n".join(view["id"] for view in made))
    if wait and any(view["status"] != SUCCEEDED for view in made):
        raise typer.Exit(Exit.FAILED)


@app.command(name="list")
def list_(
    queue: Queues = None,
    status: Statuses = None,
    node: Nodes = None,
    batch: Batches = None,
    sort: Annotated[str, typer.Option("--sort", help="turn, or -turn for the newest first")] = NEWEST_FIRST,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many at most")] = 20,
    cursor: Annotated[str | None, typer.Option("--cursor", help="Where to go on")] = None,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """List tasks. Example: tidemill task list --queue demo --status failed --status orphaned"""
    filters = {"queue": queue, "status": status, "node": node, "batch": batch}
    settings = local_settings(store, data, config)
    rows, further = asyncio.run(_list(settings, filters, sort, limit, cursor))
    if as_json:
        print_json(rows)
    else:
        print_rows([row | {"ctime": instant(row["ctime"])} for row in rows], COLUMNS)
    if further is not None:
        say(f"there may be more: --cursor {further}")


@app.command()
def show(
    task: Task,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Show a task. Example: tidemill task show 0198c1de-7f2a-7c61-9d0e-0f6a3f4be2a1"""
    seen = asyncio.run(_show(local_settings(store, data, config), task))
    if as_json:
        print_json(seen)
    else:
        print_facts(seen | {name: instant(seen[name]) for name in INSTANTS})


@app.command()
def logs(
    task: Task,
    wait: Annotated[bool, typer.Option("--follow", "-f", help="Go on until it has ended")] = False,
    stream: Annotated[
        Literal["stdout", "stderr"] | None, typer.Option("--stream", help="This stream alone")
    ] = None,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
) -> None:
    """Print what a task wrote, each stream on the same of ours. Example: tidemill task logs -f nightly"""
    asyncio.run(_logs(local_settings(store, data, config), task, stream, wait))


@app.command()
def cancel(
    tasks: Tasks = None,
    queue: Queues = None,
    status: Statuses = None,
    node: Nodes = None,
    batch: Batches = None,
    every: All = False,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
) -> None:
    """Let tasks not be done, or no more. Example: tidemill task cancel --all --queue demo --status queued"""
    filters = {"queue": queue, "status": status, "node": node, "batch": batch}
    asyncio.run(
        _change(local_settings(store, data, config), "cancel", _meant(tasks, filters, every), filters)
    )


@app.command()
def retry(
    tasks: Tasks = None,
    queue: Queues = None,
    status: Statuses = None,
    node: Nodes = None,
    batch: Batches = None,
    every: All = False,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
) -> None:
    """Queue tasks again that have ended. Example: tidemill task retry --all --queue demo --status failed"""
    filters = {"queue": queue, "status": status, "node": node, "batch": batch}
    asyncio.run(_change(local_settings(store, data, config), "retry", _meant(tasks, filters, every), filters))


def _params(text: str | None, file: Path | None) -> Any:
    """What was given as JSON. Raises `BadTask` when it is none, and `NotFound` without such a file."""
    if text is not None and file is not None:
        raise typer.BadParameter("give either --params or --params-file")
    if file is not None and str(file) != "-":
        if not file.is_file():
            raise NotFound(f"there is no file {file}")
        text = file.read_text(encoding="utf-8")
    elif file is not None:
        text = sys.stdin.read()
    try:
        return None if text is None else msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise BadTask(f"params are no JSON: {error}") from error


def _meant(tasks: list[str] | None, filters: dict[str, Any], every: bool) -> list[str]:
    """The tasks that were named; none when all that match are meant."""
    if every == bool(tasks) or (tasks and any(filters.values())):
        raise typer.BadParameter("name tasks, or say --all, with filters or without")
    return tasks or []


async def _submit(settings: Settings, new: NewTask, count: int, wait: bool) -> list[dict[str, Any]]:
    orders = orders_of(new, []) * count
    if new.key is not None and len(orders) > 1:
        raise BadTask("a key names one task, and here several are asked for")
    async with opened(settings, create=False) as store:
        check_payload(new, await get_queue(store, new.queue))
        async with audited(store, person(), "task submit", new.queue) as entry:
            entry.detail = f"{len(orders)} tasks"
            made = await Registry(store).submit_all(orders)
        if wait:
            return await _ended(store, [key for key, _ in made])
        return [task_view(key, task) for key, task in made]


async def _ended(store: Store, ids: list[str]) -> list[dict[str, Any]]:
    """The tasks once they have ended; one that was deleted meanwhile is `gone`."""
    with progress_bar(len(ids)) as step:
        found = await wait_ended(store, ids, step)
    return [
        {"id": key, "status": None, "state": "gone"} if document is None else document_view(document)
        for key, document in found.items()
    ]


async def _list(
    settings: Settings, filters: dict[str, Any], sort: str, limit: int, cursor: str | None
) -> tuple[list[dict[str, Any]], str | None]:
    where, order = conditions(filters), sorting(sort)
    async with opened(settings, create=False) as store:
        page = await store.find(TASKS, *where, sort=order, limit=limit, cursor=cursor)
        return [document_view(document) for document in page.documents], page.cursor


async def _show(settings: Settings, task: str) -> dict[str, Any]:
    async with opened(settings, create=False) as store:
        return task_view(*await Registry(store).get(task))


async def _logs(settings: Settings, task: str, stream: Stream | None, wait: bool) -> None:
    async with opened(settings, create=False) as store:
        async for piece in follow(Registry(store), Shelves(store), task, wait=wait):
            if stream is None or piece.stream == stream:
                ours = sys.stdout if piece.stream == "stdout" else sys.stderr
                ours.buffer.write(piece.data)
                ours.buffer.flush()


async def _change(settings: Settings, verb: str, tasks: list[str], filters: dict[str, Any]) -> None:
    """Change those tasks one after another, the first that cannot be ends it; or all that match."""
    where = conditions(filters)
    async with opened(settings, create=False) as store:
        registry = Registry(store)
        for task in tasks:
            async with audited(store, person(), f"task {verb}", task):
                found = await (registry.cancel(task) if verb == "cancel" else registry.retry(task))
            say(f"task {found[0]} is {'being cancelled' if found[1].cancel else task_view(*found)['state']}")
        if not tasks:
            async with audited(store, person(), f"task {verb}", "all") as entry:
                entry.detail = ", ".join(f"{name}={value}" for name, value in filters.items() if value)
                many = await (registry.cancel_all(*where) if verb == "cancel" else registry.retry_all(*where))
            say(f"{many.changed} tasks changed, {many.refused} could not be")
