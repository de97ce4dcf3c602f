"""`tidemill cluster`: who leads, straight from the store."""

import asyncio
from collections.abc import Mapping
from typing import Any

import typer

from tidemill.app.cli.cluster_view import cluster_view
from tidemill.app.cli.options import ConfigFlag, DataFlag, StoreFlag, local_settings, opened
from tidemill.app.cli.output import JsonFlag, print_gap, print_json, print_rows
from tidemill.app.settings import Settings

app = typer.Typer(add_completion=False, help="The cluster as a whole.", no_args_is_help=True)

COUNTED = ["renewals", "missed", "late", "calls", "conflicts", "unknown"]
NODE_COLUMNS = ["node", "alive", "lease_age_s", "answer_ms", "skew_ms", *COUNTED]


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


def _print(seen: Mapping[str, Any]) -> None:
    """Three tables: the cluster, its nodes, and the alarms; the last two where there are any."""
    alive = sum(bool(node.get("alive")) for node in seen["nodes"])
    print_rows([{**seen, "nodes": alive}], ["leader_name", "leader", "term", "nodes", "store"])
    if seen["nodes"]:
        print_gap()
        print_rows(map(_node_row, seen["nodes"]), NODE_COLUMNS)
    if seen["alarms"]:
        print_gap()
        print_rows(seen["alarms"], ["node", "code", "message", "fix"])


def _node_row(node: Mapping[str, Any]) -> dict[str, Any]:
    """What a node reports, in the units that people read; `-` for what it has not reported."""
    figures = node["figures"]
    row = {"node": node["name"], "alive": node["alive"], "lease_age_s": node["lease_age_s"]}
    if figures is None:
        return row
    told = {
        "answer_ms": round(figures["answer_s"] * 1000, 1),
        "skew_ms": round(figures["skew_s"] * 1000),
    }
    return row | {name: figures["total"][name] for name in COUNTED} | told


async def _show(settings: Settings) -> dict[str, Any]:
    async with opened(settings, create=False) as store:
        return await cluster_view(store) | {"store": settings.shown()["store"]}
