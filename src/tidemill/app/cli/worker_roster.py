"""`tidemill worker list`, `show` and `kick`: the workers that nodes know of, straight from the store."""

import asyncio
from typing import Annotated, Any, TypeAlias

import typer

from tidemill.app.audit import audited
from tidemill.app.cli.options import ConfigFlag, DataFlag, StoreFlag, local_settings, opened
from tidemill.app.cli.output import (
    JsonFlag,
    instant,
    person,
    print_facts,
    print_gap,
    print_json,
    print_rows,
    tell,
)
from tidemill.app.settings import Settings
from tidemill.app.worker_views import one_worker_view, workers_view
from tidemill.tasks.remote.roster import ask_to_leave

app = typer.Typer(add_completion=False)

COLUMNS = ["name", "id", "state", "succeeded", "failed", "dropped", "last_seen"]
SESSION_COLUMNS = ["queue", "node", "protocol", "state", "slots", "tasks", "since", "seen", "gone", "reason"]

Id: TypeAlias = Annotated[str, typer.Argument(help="Id of the worker", metavar="ID")]


@app.command(name="list")
def list_(
    every: Annotated[bool, typer.Option("--all", help="All that ever were")] = False,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """List workers that are connected or have just gone. Example: tidemill worker list --all --json"""
    rows = asyncio.run(_list(local_settings(store, data, config), every))
    if as_json:
        print_json(rows)
    else:
        print_rows(map(_shown, rows), COLUMNS)


@app.command()
def show(
    worker: Id,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what a worker has done, and its connections. Example: tidemill worker show vm-1"""
    seen = asyncio.run(_show(local_settings(store, data, config), worker))
    if as_json:
        print_json(seen)
    else:
        _print(seen)


@app.command()
def kick(
    worker: Id,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Close a worker's connections; it may come again. Example: tidemill worker kick vm-1"""
    seen = asyncio.run(_kick(local_settings(store, data, config), worker))
    tell(seen, as_json, f"nodes are asked to close the connections of worker {worker}")


def _shown(view: dict[str, Any]) -> dict[str, Any]:
    return view | {name: instant(view[name]) for name in ("first_seen", "last_seen")}


def _print(view: dict[str, Any]) -> None:
    """The worker, and a table of its connections, where there are any."""
    sessions = view["sessions"]
    print_facts(_shown(view) | {"sessions": None})
    if sessions:
        print_gap()
        print_rows(map(_session_row, sessions), SESSION_COLUMNS)


def _session_row(session: dict[str, Any]) -> dict[str, Any]:
    return session | {name: instant(session[name]) for name in ("since", "seen", "gone")}


async def _list(settings: Settings, every: bool) -> list[dict[str, Any]]:
    async with opened(settings, create=False) as store:
        return await workers_view(store, everybody=every)


async def _show(settings: Settings, worker: str) -> dict[str, Any]:
    async with opened(settings, create=False) as store:
        return await one_worker_view(store, worker)


async def _kick(settings: Settings, worker: str) -> dict[str, Any]:
    async with opened(settings, create=False) as store:
        seen = await one_worker_view(store, worker)
        async with audited(store, person(), "worker kick", worker):
            await ask_to_leave(store, worker)
        return seen
