"""`tidemill up`: start a node."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
import uvloop

from tidemill.app.bind import check_bind, url_of
from tidemill.app.cli.options import ConfigFlag, DataFlag, StoreFlag, make_private, opened, setting
from tidemill.app.cli.output import say
from tidemill.app.layers import local_layers
from tidemill.app.logs import configure_logs
from tidemill.app.settings import Settings, resolve
from tidemill.app.settings_store import read_cluster_settings
from tidemill.app.tokens import has_usable_token, list_tokens
from tidemill.base.log import get_logger

# Its second argument is told of the node once it listens.
NodeRunner: TypeAlias = Callable[[Settings, Callable[[Any], None]], Coroutine[Any, Any, None]]

app = typer.Typer(add_completion=False)
log = get_logger("tidemill.settings")

OPEN = (
    "no tokens: everybody on this machine may do everything; "
    "to change that: tidemill token create --role admin --name NAME"
)


@app.command()
def up(
    store: StoreFlag = None,
    data: DataFlag = None,
    host: Annotated[str | None, setting("host")] = None,
    port: Annotated[str | None, setting("port")] = None,
    name: Annotated[str | None, setting("name")] = None,
    slots: Annotated[str | None, setting("slots")] = None,
    ttl_s: Annotated[str | None, setting("ttl_s")] = None,
    tls_cert: Annotated[str | None, setting("tls_cert")] = None,
    tls_key: Annotated[str | None, setting("tls_key")] = None,
    log_level: Annotated[str | None, setting("log_level")] = None,
    audit_keep_days: Annotated[str | None, setting("audit_keep_days")] = None,
    allowed_hosts: Annotated[str | None, setting("allowed_hosts")] = None,
    allowed_origins: Annotated[str | None, setting("allowed_origins")] = None,
    blobs: Annotated[str | None, setting("blobs")] = None,
    maxthreads: Annotated[str | None, setting("maxthreads")] = None,
    activequeues: Annotated[str | None, setting("activequeues")] = None,
    ignorequeues: Annotated[str | None, setting("ignorequeues")] = None,
    plugins: Annotated[str | None, setting("plugins")] = None,
    task_runner: Annotated[str | None, setting("task_runner")] = None,
    runner_tasks: Annotated[str | None, setting("runner_tasks")] = None,
    runner_memory_mb: Annotated[str | None, setting("runner_memory_mb")] = None,
    payload_mb: Annotated[str | None, setting("payload_mb")] = None,
    path_prefix: Annotated[str | None, setting("path_prefix")] = None,
    worker_grace_s: Annotated[str | None, setting("worker_grace_s")] = None,
    worker_message_mb: Annotated[str | None, setting("worker_message_mb")] = None,
    gfs: Annotated[str | None, setting("gfs")] = None,
    monitoring: Annotated[str | None, setting("monitoring")] = None,
    balance: Annotated[str | None, setting("balance")] = None,
    web_extensions: Annotated[str | None, setting("web_extensions")] = None,
    web_root: Annotated[str | None, setting("web_root")] = None,
    config: ConfigFlag = None,
) -> None:
    """Start a node and run until interrupted. With the address of a store it joins that cluster.

    [bold]Examples[/bold]

      tidemill up
      tidemill up --store postgresql://db/tidemill --host 10.0.0.5
    """
    flags = {key: value for key, value in locals().items() if key != "config"}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(flags, config))


async def run(flags: Mapping[str, Any], config: Path | None) -> None:
    """Settle the settings, refuse an open door to the network, then be a node until stopped."""
    settings, any_token = await admitted(flags, config)
    await node_runner()(settings, lambda node: say(banner(node.name, node.settings, any_token)))


async def admitted(flags: Mapping[str, Any], config: Path | None) -> tuple[Settings, bool]:
    """The settings of a node that may start, those of the store included; and whether there are tokens."""
    layers = local_layers(flags, config)
    local = resolve(layers)
    async with opened(local, create=True) as store:
        make_private(local.data)
        settings = resolve([*layers, (await read_cluster_settings(store)).layer()])
        check_bind(settings.host, await has_usable_token(store))
        any_token = bool(await list_tokens(store))
    configure_logs(settings.log_level)
    for name, reason in settings.unused().items():
        log.warning("setting.unused", setting=name, reason=reason)
    return settings, any_token


def banner(name: str, settings: Settings, any_token: bool) -> str:
    """What a person wants to know of a node that has just started."""
    lines = {
        "Tidemill": address(settings),
        "node": name,
        "store": settings.shown()["store"],
        "data": settings.data.absolute(),
        "door": "a token is needed" if any_token else OPEN,
    }
    return "\n".join(f"{label:<10}{value}" for label, value in lines.items())


def address(settings: Settings) -> str:
    """Where to point a browser on this machine."""
    return url_of(settings, wildcard="127.0.0.1")


def node_runner() -> NodeRunner:
    """`run_node`. Loaded by name, as the web framework that comes with it takes longer than most commands."""
    runner: NodeRunner = import_module("tidemill.app.node").run_node
    return runner
