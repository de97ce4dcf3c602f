"""`tidemill task`: tasks, straight in the store."""

import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer

from tidemill.app.audit import audited
from tidemill.app.cli.contents import result_of, save, with_payload
from tidemill.app.cli.exits import Exit
from tidemill.app.cli.options import ConfigFlag, DataFlag, StoreFlag, given_json, local_settings, opened
from tidemill.app.cli.output import JsonFlag, instant, person, print_facts, print_json, print_rows, say
from tidemill.app.cli.task_changes import change_named, change_tasks, matching
from tidemill.app.cli.task_wait import progress_bar, wait_ended
from tidemill.app.errors import NotFound
from tidemill.app.jobs import PRIORITIES
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
    payload: Annotated[
        Path | None,
        typer.Option(
            "--payload", exists=True, dir_okay=False, help="For a remote queue: the file that its worker gets"
        ),
    ] = None,
    priority: Annotated[
        str, typer.Option("--priority", help="The higher, the sooner; or immediate, or batch")
    ] = "0",
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
        priority=_priority(priority),
        not_before=not_before,
        description=description,
    )
    made = asyncio.run(_submit(local_settings(store, data, config), new, count, payload, wait, as_json))
    if wait and not as_json:
        print_rows(made, ENDED)
    else:
        _print_made(made, as_json)
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
def result(
    task: Task,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write; else standard output")
    ] = None,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
) -> None:
    """Save what came of a task that has ended. Example: tidemill task result nightly -o nightly.bin"""
    asyncio.run(_result(local_settings(store, data, config), task, output))


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
    as_json: JsonFlag = False,
) -> None:
    """Let tasks not be done, or no more. Example: tidemill task cancel --all --queue demo --status queued"""
    filters = {"queue": queue, "status": status, "node": node, "batch": batch}
    named = _meant(tasks, filters, every)
    change_tasks(local_settings(store, data, config), "cancel", named, filters, as_json)


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
    as_json: JsonFlag = False,
) -> None:
    """Queue tasks again that have ended. Example: tidemill task retry --all --queue demo --status failed"""
    filters = {"queue": queue, "status": status, "node": node, "batch": batch}
    named = _meant(tasks, filters, every)
    change_tasks(local_settings(store, data, config), "retry", named, filters, as_json)


@app.command()
def delete(
    tasks: Tasks = None,
    queue: Queues = None,
    status: Statuses = None,
    node: Nodes = None,
    batch: Batches = None,
    every: All = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before all that match are deleted")] = False,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Remove tasks. By filters, those that wait or run stay, and are counted.

    Example: tidemill task delete --queue demo --status succeeded
    """
    filters = {"queue": queue, "status": status, "node": node, "batch": batch}
    named = _meant(tasks, filters, every or bool(conditions(filters)))
    settings = local_settings(store, data, config)
    if not (named or yes):
        question = f"{matching(settings, filters)} match; delete those that neither wait nor run?"
        typer.confirm(question, abort=True, err=True)
    change_tasks(settings, "delete", named, filters, as_json)


@app.command()
def park(
    tasks: Annotated[list[str], typer.Argument(help="Ids or keys of tasks", metavar="TASK...")],
    status: Annotated[int, typer.Option("--status", help="-4, or a code of your own, less than -6")],
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Keep tasks that wait from being claimed, until they are retried.

    Example: tidemill task park nightly --status -7
    """
    settings = local_settings(store, data, config)
    change_named(settings, "park", tasks, partial(Registry.park, status=status), as_json)


def _priority(text: str) -> int:
    try:
        return PRIORITIES[text] if text in PRIORITIES else int(text)
    except ValueError:
        words = " or ".join(PRIORITIES)
        raise typer.BadParameter(f"priority is {text!r}, and must be a number, or {words}") from None


def _params(text: str | None, file: Path | None) -> Any:
    """What was given as JSON. Raises `BadTask` when it is none, and `NotFound` without such a file."""
    if text is not None and file is not None:
        raise typer.BadParameter("give either --params or --params-file")
    if file is not None and str(file) != "-":
        if not file.is_file():
            raise NotFound(f"there is no file {file}")
        return given_json(str(file), file.read_bytes())
    if file is not None:
        return given_json("standard input", sys.stdin.buffer.read())
    return None if text is None else given_json("--params", text)


def _meant(tasks: list[str] | None, filters: dict[str, Any], every: bool) -> list[str]:
    """The tasks that were named; none when all that match are meant."""
    if every == bool(tasks) or (tasks and any(filters.values())):
        raise typer.BadParameter("name tasks, or say --all, with filters or without")
    return tasks or []


def _print_made(made: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(made)
    else:
        typer.echo("\n".join(view["id"] for view in made))


async def _submit(
    settings: Settings, new: NewTask, count: int, payload: Path | None, wait: bool, as_json: bool
) -> list[dict[str, Any]]:
    """Make the tasks. Whoever is interrupted while waiting is told what goes on without them."""
    orders = orders_of(new, []) * count
    if new.key is not None and len(orders) > 1:
        raise BadTask("a key names one task, and here several are asked for")
    async with opened(settings, create=False) as store:
        queue = await get_queue(store, new.queue)
        check_payload(new, queue)
        if payload is None and new.params is None and queue.kind == "remote":
            raise BadTask(
                f"queue {queue.name!r} is remote: name the file that its worker gets with --payload"
            )
        if payload is not None:
            orders = await with_payload(store, queue, orders, payload)
        async with audited(store, person(), "task submit", new.queue) as entry:
            entry.detail = f"{len(orders)} tasks"
            made = await Registry(store).submit_all(orders)
        views = [task_view(key, task) for key, task in made]
        try:
            return await _ended(store, [key for key, _ in made]) if wait else views
        except (asyncio.CancelledError, KeyboardInterrupt):
            say("interrupted; these tasks go on, and `tidemill task show` tells how they are")
            _print_made(views, as_json)
            raise


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


async def _result(settings: Settings, task: str, output: Path | None) -> None:
    async with opened(settings, create=False) as store:
        await save(result_of(store, task), output)


async def _logs(settings: Settings, task: str, stream: Stream | None, wait: bool) -> None:
    async with opened(settings, create=False) as store:
        async for piece in follow(Registry(store), Shelves(store), task, wait=wait):
            if stream is None or piece.stream == stream:
                ours = sys.stdout if piece.stream == "stdout" else sys.stderr
                ours.buffer.write(piece.data)
                ours.buffer.flush()
