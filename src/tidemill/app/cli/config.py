"""`tidemill config`: settings, where they come from, and those of the whole cluster."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from tidemill.app.audit import audited
from tidemill.app.cli.options import (
    ConfigFlag,
    DataFlag,
    StoreFlag,
    local_settings,
    opened,
)
from tidemill.app.cli.output import JsonFlag, person, print_json, print_rows, say, tell
from tidemill.app.errors import NotFound
from tidemill.app.layers import local_layers
from tidemill.app.mask import masked_text
from tidemill.app.settings import CLUSTER_WIDE, NoSuchStore, Settings, check_cluster_wide, resolve
from tidemill.app.settings_store import ClusterSettings, read_cluster_settings, set_cluster_setting
from tidemill.store import Unavailable

app = typer.Typer(
    help="Show settings and their origins; set those of the whole cluster.", no_args_is_help=True
)


@app.command()
def show(
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    origin: Annotated[bool, typer.Option("--origin", help="Also say where each value comes from")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show every setting as a node started here would have it.

    Example: tidemill config show --origin
    """
    settings = asyncio.run(_effective(store, data, config))
    rows = [
        {"setting": name, "value": value, "origin": settings.origin(name)}
        for name, value in settings.shown().items()
    ]
    if as_json:
        print_json({row.pop("setting"): row if origin else row["value"] for row in rows})
    else:
        print_rows(rows, ["setting", "value", "origin"] if origin else ["setting", "value"])
    for name, reason in settings.unused().items():
        say(f"{name} is unused: {reason}")


@app.command(name="set")
def set_(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(CLUSTER_WIDE)}")],
    value: Annotated[str | None, typer.Argument(help="The new value")] = None,
    unset: Annotated[bool, typer.Option("--unset", help="Take the value away instead")] = False,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Set a value for the whole cluster, in the store. Each node takes it up when it next starts.

    Example: tidemill config set ttl_s 8 --store postgresql://db/tidemill
    """
    if (value is None) != unset:
        raise typer.BadParameter("give either a value or --unset")
    if value is not None:
        check_cluster_wide({name: value}, "the command line")
    written = asyncio.run(_set(local_settings(store, data, config), name, value))
    values = ", ".join(f"{key} = {entry}" for key, entry in written.values.items()) or "nothing set"
    message = f"cluster-wide: {values}; each node takes this up when it next starts"
    tell(written.values, as_json, message)


async def _effective(store: str | None, data: str | None, config: Path | None) -> Settings:
    layers = local_layers({"store": store, "data": data}, config)
    settings = resolve(layers)
    try:
        async with opened(settings, create=False) as open_store:
            return resolve([*layers, (await read_cluster_settings(open_store)).layer()])
    except NotFound:
        return settings
    except NoSuchStore as error:
        say(f"without the cluster-wide settings: {error}")
        return settings
    except Unavailable as error:
        say(f"without the cluster-wide settings, as the store cannot be reached: {masked_text(str(error))}")
        return settings


async def _set(settings: Settings, name: str, value: Any) -> ClusterSettings:
    async with opened(settings, create=True) as store:
        action = "config unset" if value is None else "config set"
        async with audited(store, person(), action, name) as entry:
            written = await set_cluster_setting(store, name, value, origin="the command line")
            entry.detail = None if value is None else f"{name}={value}"
            return written
