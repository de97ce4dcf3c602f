"""`tidemill queue`: queues, straight in the store."""

import asyncio
from typing import Annotated, Any, Literal, TypeAlias

import typer

from tidemill.app.audit import audited
from tidemill.app.cli.options import ConfigFlag, DataFlag, StoreFlag, given_json, local_settings, opened
from tidemill.app.cli.output import JsonFlag, instant, person, print_facts, print_json, print_rows, say, tell
from tidemill.app.settings import Settings
from tidemill.app.task_views import plugins_of_nodes, queue_counts, queue_view
from tidemill.cluster import list_nodes
from tidemill.store import Store
from tidemill.tasks.errors import BadTask
from tidemill.tasks.queue import create_queue, get_queue, list_queues, new_queue, update_queue
from tidemill.tasks.registry import Registry

app = typer.Typer(add_completion=False, help="Queues of tasks.", no_args_is_help=True)

COLUMNS = ["name", "kind", "plugin", "threads", "sort", "paused", "queued", "running", "completed"]

Name: TypeAlias = Annotated[str, typer.Argument(help="Name of the queue")]
Plugin: TypeAlias = Annotated[str | None, typer.Option("--plugin", help="The plugin that runs its tasks")]
Threads: TypeAlias = Annotated[
    str | None, typer.Option("--threads", help="How many of its tasks at once in the whole cluster, or none")
]
Sort: TypeAlias = Annotated[
    Literal["fifo", "lifo", "default"] | None, typer.Option("--sort", help="Which task comes first")
]
Nodes: TypeAlias = Annotated[
    list[str] | None, typer.Option("--node", help="The only nodes that run its tasks; several times, or ''")
]
NotNodes: TypeAlias = Annotated[
    list[str] | None, typer.Option("--not-node", help="Nodes that do not; several times, or ''")
]
Policy: TypeAlias = Annotated[
    str | None, typer.Option("--policy", help='What is done about failures, such as {"attempts": 3}')
]
Gfs: TypeAlias = Annotated[
    Literal["auto", "true", "false"] | None, typer.Option("--gfs", help="Whether outputs are blobs")
]
Keep: TypeAlias = Annotated[
    str | None, typer.Option("--keep", help="For how many seconds tasks that have ended are kept, or none")
]
Becomes: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--becomes", metavar="TYPE", help="For a remote queue: the one that its results are jobs of, or ''"
    ),
]
BatchSize: TypeAlias = Annotated[
    int | None, typer.Option("--batch-size", help="For a remote queue: how many jobs a batch has")
]
Description: TypeAlias = Annotated[str | None, typer.Option("--description", help="A text")]


@app.command()
def create(
    name: Name,
    kind: Annotated[
        Literal["plugin", "function", "remote"], typer.Option("--kind", help="What runs its tasks")
    ] = "plugin",
    plugin: Plugin = None,
    threads: Threads = None,
    sort: Sort = None,
    nodes: Nodes = None,
    not_nodes: NotNodes = None,
    policy: Policy = None,
    gfs: Gfs = None,
    keep: Keep = None,
    becomes: Becomes = None,
    batch_size: BatchSize = None,
    description: Description = None,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a queue. Example: tidemill queue create demo --plugin words --threads 4"""
    given = {"threads": threads, "sort": sort, "nodes": nodes, "not_nodes": not_nodes, "policy": policy}
    given |= {"gfs": gfs, "keep_s": keep, "description": description, "plugin": plugin}
    values = fields_of({**given, "becomes": becomes, "batch_size": batch_size})
    made = asyncio.run(_create(local_settings(store, data, config), {"name": name, "kind": kind, **values}))
    _done(made, as_json, f"queue {name} is made")


@app.command()
def update(
    name: Name,
    plugin: Plugin = None,
    threads: Threads = None,
    sort: Sort = None,
    nodes: Nodes = None,
    not_nodes: NotNodes = None,
    policy: Policy = None,
    gfs: Gfs = None,
    keep: Keep = None,
    becomes: Becomes = None,
    batch_size: BatchSize = None,
    description: Description = None,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Change a queue; what is not named stays as it is. Example: tidemill queue update demo --threads 8"""
    given = {"threads": threads, "sort": sort, "nodes": nodes, "not_nodes": not_nodes, "policy": policy}
    given |= {"gfs": gfs, "keep_s": keep, "description": description, "plugin": plugin}
    changes = fields_of({**given, "becomes": becomes, "batch_size": batch_size})
    if not changes:
        raise typer.BadParameter("name something to change")
    _change(local_settings(store, data, config), name, changes, "update", as_json)


@app.command(name="list")
def list_(
    store: StoreFlag = None, data: DataFlag = None, config: ConfigFlag = None, as_json: JsonFlag = False
) -> None:
    """List queues, with how many of their tasks are where. Example: tidemill queue list --json"""
    rows = asyncio.run(_list(local_settings(store, data, config)))
    if as_json:
        print_json(rows)
    else:
        print_rows(map(_row, rows), COLUMNS)


@app.command()
def show(
    name: Name,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Show a queue with its counts. Example: tidemill queue show demo"""
    seen = asyncio.run(_show(local_settings(store, data, config), name))
    if as_json:
        print_json(seen)
    else:
        print_facts(_row(seen) | {"ctime": instant(seen["ctime"])})


@app.command()
def pause(
    name: Name,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Let no more of its tasks begin; those that run go on. Example: tidemill queue pause demo"""
    _change(local_settings(store, data, config), name, {"paused": True}, "pause", as_json)


@app.command()
def resume(
    name: Name,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Let its tasks begin again. Example: tidemill queue resume demo"""
    _change(local_settings(store, data, config), name, {"paused": False}, "resume", as_json)


@app.command()
def delete(
    name: Name,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Remove a queue whose tasks have all ended. Example: tidemill queue delete demo"""
    asyncio.run(_delete(local_settings(store, data, config), name))
    tell({"deleted": name}, as_json, f"queue {name} is deleted")


def fields_of(given: dict[str, Any]) -> dict[str, Any]:
    """What was named, as a queue has it. Raises `BadTask` for what cannot be read."""
    named = {name: value for name, value in given.items() if value is not None}
    if named.get("threads") is not None:
        named["threads"] = _threads(named["threads"])
    if "keep_s" in named:
        named["keep_s"] = _seconds(named["keep_s"])
    for name in ("nodes", "not_nodes"):
        if name in named:
            named[name] = [node for node in named[name] if node]
    if "becomes" in named:
        named["becomes"] = named["becomes"] or None
    if "policy" in named:
        named["policy"] = given_json("--policy", named["policy"])
    return named


def _threads(text: str) -> int | None:
    if text == "none":
        return None
    try:
        return int(text)
    except ValueError:
        raise BadTask("threads must be a non-negative integer or none") from None


def _seconds(text: str) -> float | None:
    try:
        return None if text == "none" else float(text)
    except ValueError:
        raise BadTask("keep must be a number of seconds or none") from None


def _row(view: dict[str, Any]) -> dict[str, Any]:
    """Counts that were broken off are marked."""
    return view | {name: f"{view[name]}+" for name in view["at_least"]}


def _done(view: dict[str, Any], as_json: bool, message: str) -> None:
    tell(view, as_json, message)
    if not view["plugin_known"]:
        say(f"no node that is alive has the plugin {view['plugin']}: its tasks wait until one has")


def _change(settings: Settings, name: str, changes: dict[str, Any], verb: str, as_json: bool) -> None:
    view = asyncio.run(_update(settings, name, changes, verb))
    _done(view, as_json, f"queue {name} is {verb}d")


async def _known(store: Store) -> list[str]:
    return list(plugins_of_nodes(await list_nodes(store)))


async def _create(settings: Settings, values: dict[str, Any]) -> dict[str, Any]:
    queue = new_queue(values)
    async with opened(settings, create=True) as store:
        async with audited(store, person(), "queue create", queue.name):
            made = await create_queue(store, queue)
        return queue_view(made, await _known(store))


async def _update(settings: Settings, name: str, changes: dict[str, Any], verb: str) -> dict[str, Any]:
    async with opened(settings, create=False) as store:
        async with audited(store, person(), f"queue {verb}", name) as entry:
            entry.detail = ", ".join(f"{field}={value}" for field, value in changes.items())
            after = await update_queue(store, name, changes)
        return queue_view(after, await _known(store))


async def _list(settings: Settings) -> list[dict[str, Any]]:
    async with opened(settings, create=False) as store:
        known, registry = await _known(store), Registry(store)
        return [
            queue_view(queue, known) | await queue_counts(registry, queue.name)
            for queue in await list_queues(store)
        ]


async def _show(settings: Settings, name: str) -> dict[str, Any]:
    async with opened(settings, create=False) as store:
        queue = await get_queue(store, name)
        return queue_view(queue, await _known(store)) | await queue_counts(Registry(store), name)


async def _delete(settings: Settings, name: str) -> None:
    async with opened(settings, create=False) as store:
        async with audited(store, person(), "queue delete", name):
            await Registry(store).delete_queue(name)
