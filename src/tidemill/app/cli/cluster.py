"""`tidemill cluster`: who leads, straight from the store."""

import asyncio
from typing import Any

import typer

from tidemill.app.cli.cluster_view import cluster_view
from tidemill.app.cli.options import ConfigFlag, DataFlag, StoreFlag, local_settings, opened
from tidemill.app.cli.output import JsonFlag, print_json, print_rows
from tidemill.app.settings import Settings

app = typer.Typer(add_completion=False, help="The cluster as a whole.", no_args_is_help=True)


@app.callback()
def cluster() -> None:
    pass


@app.command()
def show(
    store: StoreFlag = None, data: DataFlag = None, config: ConfigFlag = None, as_json: JsonFlag = False
) -> None:
    """Show who leads, under which term, and how many nodes there are. Example: tidemill cluster show"""
    seen = asyncio.run(_show(local_settings(store, data, config)))
    if as_json:
        print_json(seen)
    else:
        alive = sum(bool(node.get("alive")) for node in seen["nodes"])
        print_rows([seen | {"nodes": alive}], ["leader_name", "leader", "term", "nodes", "store"])


async def _show(settings: Settings) -> dict[str, Any]:
    async with opened(settings, create=False) as store:
        return await cluster_view(store) | {"store": settings.shown()["store"]}
