"""`tidemill cluster`: who leads, and how far partitions are, straight from the store."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from tidemill.app.audit import audited
from tidemill.app.cli.cluster_view import cluster_view, partitions_view
from tidemill.app.cli.options import ConfigFlag, DataFlag, StoreFlag, local_settings, opened
from tidemill.app.cli.output import JsonFlag, person, print_gap, print_json, print_rows, say
from tidemill.app.errors import NotFound
from tidemill.app.settings import Settings
from tidemill.cluster import PARTITIONS, retry_partition
from tidemill.cluster.tally import STATES

app = typer.Typer(add_completion=False, help="The cluster as a whole.", no_args_is_help=True)

COUNTED = ["renewals", "missed", "late", "calls", "conflicts", "unknown"]
NODE_COLUMNS = ["node", "alive", "lease_age_s", "answer_ms", "skew_ms", *COUNTED, "partitions"]
PARTITION_COLUMNS = ["key", "state", "node", "attempt", "left_s", "pause_s", "error"]


@app.callback()
def cluster() -> None:
    pass


@app.command()
def show(
    store: StoreFlag = None, data: DataFlag = None, config: ConfigFlag = None, as_json: JsonFlag = False
) -> None:
    """Show who leads, what each node reports, and what is alarming. Example: tidemill cluster show --json"""
    seen = asyncio.run(_show(local_settings(store, data, config)))
    if as_json:
        print_json(seen)
    else:
        _print(seen)


@app.command()
def partitions(
    handler: Annotated[str | None, typer.Option("--handler", help="Those of this handler alone")] = None,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """List partitions: how far each is, and on which node. Example: tidemill cluster partitions --json"""
    rows = asyncio.run(_partitions(local_settings(store, data, config), handler))
    if as_json:
        print_json(rows)
    else:
        print_rows(rows, PARTITION_COLUMNS)


@app.command()
def retry(
    keys: Annotated[list[str], typer.Argument(help="Keys of failed partitions", metavar="KEY...")],
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Have failed partitions tried again, as new ones are. Example: tidemill cluster retry files/a.csv"""
    asyncio.run(_retry(local_settings(store, data, config), keys))
    if as_json:
        print_json({"retried": keys})


def _print(seen: Mapping[str, Any]) -> None:
    """Tables of the cluster, its nodes, the handlers of partitions, and the alarms, where there are any."""
    alive = sum(bool(node.get("alive")) for node in seen["nodes"])
    print_rows([{**seen, "nodes": alive}], ["leader_name", "leader", "term", "nodes", "store"])
    if seen["nodes"]:
        print_gap()
        print_rows(map(_node_row, seen["nodes"]), NODE_COLUMNS)
    if seen["partitions"]:
        print_gap()
        print_rows(map(_handler_row, seen["partitions"]), ["handler", *STATES])
    if seen["alarms"]:
        print_gap()
        print_rows(seen["alarms"], ["node", "code", "message", "fix"])


def _node_row(node: Mapping[str, Any]) -> dict[str, Any]:
    """What a node reports, in the units that people read; `-` for what it has not reported."""
    figures = node["figures"]
    row = {"node": node["name"]} | {name: node[name] for name in ("alive", "lease_age_s", "partitions")}
    if figures is None:
        return row
    told = {
        "answer_ms": round(figures["answer_s"] * 1000, 1),
        "skew_ms": round(figures["skew_s"] * 1000),
    }
    return row | {name: figures["total"][name] for name in COUNTED} | told


def _handler_row(tally: Mapping[str, Any]) -> dict[str, Any]:
    return {"handler": tally["handler"], **tally["states"]}


async def _show(settings: Settings) -> dict[str, Any]:
    async with opened(settings, create=False) as store:
        return await cluster_view(store) | {"store": settings.shown()["store"]}


async def _partitions(settings: Settings, handler: str | None) -> list[dict[str, Any]]:
    async with opened(settings, create=False) as store:
        return await partitions_view(store, handler)


async def _retry(settings: Settings, keys: list[str]) -> None:
    """One after another; the first that cannot be tried again ends it."""
    async with opened(settings, create=False) as store:
        for key in keys:
            if await store.get(PARTITIONS, key) is None:
                raise NotFound(f"there is no partition {key!r}; `tidemill cluster partitions` lists them")
            async with audited(store, person(), "partition retry", key):
                await retry_partition(store, key)
            say(f"partition {key} will be tried again")
