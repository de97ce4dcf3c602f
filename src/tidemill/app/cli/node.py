"""`tidemill node`: the nodes of the cluster, straight from the store."""

import asyncio
from typing import Annotated, Any, TypeAlias

import typer

from tidemill.app.audit import audited
from tidemill.app.cli.cluster_view import cluster_view
from tidemill.app.cli.options import ConfigFlag, DataFlag, StoreFlag, local_settings, opened
from tidemill.app.cli.output import JsonFlag, instant, person, print_facts, print_json, print_rows, tell
from tidemill.app.errors import NotFound
from tidemill.app.settings import Settings
from tidemill.app.task_views import limits_view, tasks_on
from tidemill.store import Store
from tidemill.tasks.limits import TAKING_TASKS, NodeLimits, change_limits, read_all_limits
from tidemill.tasks.registry import Registry

app = typer.Typer(add_completion=False, help="The nodes of the cluster.", no_args_is_help=True)

COLUMNS = [
    *("name", "alive", "leader", "address", "slots", "maxthreads", "draining", "dead"),
    *("release", "started", "expire", "token"),
]

Name: TypeAlias = Annotated[str, typer.Argument(help="Name of the node")]


@app.callback()
def node() -> None:
    pass


@app.command(name="list")
def list_(
    store: StoreFlag = None, data: DataFlag = None, config: ConfigFlag = None, as_json: JsonFlag = False
) -> None:
    """List the nodes. Example: tidemill node list --store postgresql://db/tidemill --json"""
    rows = asyncio.run(_rows(local_settings(store, data, config)))
    if as_json:
        print_json(rows)
    else:
        print_rows(map(_shown, rows), COLUMNS)


@app.command()
def show(
    name: Name,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Show a node, and how many tasks it has in hands. Example: tidemill node show vm-1"""
    seen = asyncio.run(_show(local_settings(store, data, config), name))
    if as_json:
        print_json(seen)
    else:
        print_facts(_shown(seen))


@app.command()
def drain(
    name: Name,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Let a node take no more tasks; those it has go on. Example: tidemill node drain vm-1"""
    limits = asyncio.run(_set(local_settings(store, data, config), name, "drain", draining=True))
    tell(limits, as_json, f"node {name} takes no more tasks")


@app.command()
def undrain(
    name: Name,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Let a node take tasks again, also one marked as dead. Example: tidemill node undrain vm-1"""
    limits = asyncio.run(_set(local_settings(store, data, config), name, "undrain", **TAKING_TASKS))
    tell(limits, as_json, f"node {name} takes tasks again")


@app.command(name="set")
def set_(
    name: Name,
    maxthreads: Annotated[
        str, typer.Option("--maxthreads", help="How many tasks at a time; none for its own setting")
    ],
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Bound how many tasks a node has in hands. Example: tidemill node set vm-1 --maxthreads 4"""
    if not (maxthreads == "none" or (maxthreads.isascii() and maxthreads.isdigit())):
        raise typer.BadParameter("maxthreads is a non-negative integer or none")
    bound = None if maxthreads == "none" else int(maxthreads)
    limits = asyncio.run(_set(local_settings(store, data, config), name, "set", maxthreads=bound))
    tell(limits, as_json, f"node {name}: maxthreads is {maxthreads}")


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"started": instant(row["started"]), "expire": instant(row["expire"])}


async def _rows(settings: Settings) -> list[dict[str, Any]]:
    async with opened(settings, create=False) as store:
        return await _nodes(store)


async def _nodes(store: Store) -> list[dict[str, Any]]:
    nodes, limits = (await cluster_view(store))["nodes"], await read_all_limits(store)
    return [node | limits_view(limits.get(node["name"], NodeLimits()), node["token"]) for node in nodes]


async def _one(store: Store, name: str) -> dict[str, Any]:
    for node in await _nodes(store):
        if node["name"] == name:
            return node
    raise NotFound(f"there is no node {name!r}; `tidemill node list` lists them")


async def _show(settings: Settings, name: str) -> dict[str, Any]:
    async with opened(settings, create=False) as store:
        return await _one(store, name) | {"tasks": await tasks_on(Registry(store), name)}


async def _set(settings: Settings, name: str, verb: str, **changes: Any) -> dict[str, Any]:
    async with opened(settings, create=False) as store:
        node = await _one(store, name)
        async with audited(store, person(), f"node {verb}", name) as entry:
            entry.detail = ", ".join(f"{field}={value}" for field, value in changes.items())
            after = await change_limits(store, name, **changes)
        return {"name": name} | limits_view(after, node["token"])
