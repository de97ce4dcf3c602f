"""`tidemill plugin`: what tasks may use, and on which nodes."""

import asyncio
from typing import Any

import typer

from tidemill.app.cli.options import ConfigFlag, DataFlag, StoreFlag, local_settings, opened
from tidemill.app.cli.output import JsonFlag, print_json, print_rows
from tidemill.app.settings import Settings
from tidemill.app.task_views import plugins_of_nodes
from tidemill.cluster import list_nodes

app = typer.Typer(add_completion=False, help="Plugins that run tasks.", no_args_is_help=True)


@app.callback()
def plugin() -> None:
    pass


@app.command(name="list")
def list_(
    store: StoreFlag = None, data: DataFlag = None, config: ConfigFlag = None, as_json: JsonFlag = False
) -> None:
    """List the plugins that nodes which are alive can run. Example: tidemill plugin list --json"""
    rows = asyncio.run(_list(local_settings(store, data, config)))
    if as_json:
        print_json(rows)
    else:
        print_rows(rows, ["name", "nodes"])


async def _list(settings: Settings) -> list[dict[str, Any]]:
    async with opened(settings, create=False) as store:
        found = plugins_of_nodes(await list_nodes(store))
        return [{"name": name, "nodes": nodes} for name, nodes in found.items()]
