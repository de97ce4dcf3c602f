"""`tidemill node`: the nodes of the cluster, straight from the store."""

import asyncio
from typing import Any

import typer

from tidemill.app.cli.cluster_view import cluster_view
from tidemill.app.cli.options import ConfigFlag, DataFlag, StoreFlag, local_settings, opened
from tidemill.app.cli.output import JsonFlag, instant, print_json, print_rows
from tidemill.app.settings import Settings

app = typer.Typer(add_completion=False, help="The nodes of the cluster.", no_args_is_help=True)

COLUMNS = ["name", "alive", "leader", "address", "slots", "release", "started", "expire", "token"]


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
        shown = [row | {"started": instant(row["started"]), "expire": instant(row["expire"])} for row in rows]
        print_rows(shown, COLUMNS)


async def _rows(settings: Settings) -> list[dict[str, Any]]:
    async with opened(settings, create=False) as store:
        nodes: list[dict[str, Any]] = (await cluster_view(store))["nodes"]
        return nodes
