"""`tidemill plugin`: what tasks may use, and on which nodes."""

import asyncio
from typing import Any

import typer

from tidemill.app.cli.options import ConfigFlag, DataFlag, StoreFlag, local_settings, opened
from tidemill.app.cli.output import JsonFlag, print_json, print_rows
from tidemill.app.settings import Settings
from tidemill.app.task_views import plugin_rows
from tidemill.cluster import list_nodes

app = typer.Typer(add_completion=False, help="Plugins that run tasks.", no_args_is_help=True)


@app.callback()
def plugin() -> None:
    pass


@app.command(name="list")
def list_(
    store: StoreFlag = None, data: DataFlag = None, config: ConfigFlag = None, as_json: JsonFlag = False
) -> None:
    """List the plugins of nodes which are alive, and why some cannot be run. Example: tidemill plugin list"""
    rows = asyncio.run(_list(local_settings(store, data, config)))
    if as_json:
        print_json(rows)
    else:
        print_rows(rows, ["name", "nodes", "broken"])


async def _list(settings: Settings) -> list[dict[str, Any]]:
    async with opened(settings, create=False) as store:
        return plugin_rows(await list_nodes(store))
