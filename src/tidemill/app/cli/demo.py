"""`tidemill demo`: a node with something to look at, that leaves nothing behind."""

import asyncio
import tempfile
import webbrowser
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import httpx2
import typer

from tidemill.app.cli.exits import Exit
from tidemill.app.cli.options import DataFlag, StoreFlag, setting
from tidemill.app.cli.output import print_json, say
from tidemill.app.cli.up import address, admitted, node_runner
from tidemill.app.settings import Settings, has_display

app = typer.Typer(add_completion=False)

_READY_WITHIN_S = 60.0
_ASK_EVERY_S = 0.2


@app.command()
def demo(
    store: StoreFlag = None,
    data: DataFlag = None,
    host: Annotated[str | None, setting("host")] = None,
    port: Annotated[str | None, setting("port")] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="Stop after so many seconds of being ready")
    ] = None,
    headless: Annotated[bool, typer.Option("--headless", help="Open no browser")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the cluster as JSON when it is ready")
    ] = False,
) -> None:
    """Start a node in a folder of its own, which is removed at the end unless --data names one.

    [bold]Examples[/bold]

      tidemill demo
      tidemill demo --seconds 5 --headless --json
    """
    with ExitStack() as stack:
        folder = data or stack.enter_context(tempfile.TemporaryDirectory(prefix="tidemill-"))
        flags = {"store": store, "data": folder, "host": host, "port": port}
        ready = asyncio.run(_demo(flags, seconds, browser=not headless and has_display(), as_json=as_json))
    if not ready:
        say("error: the node was not ready in time [demo.not_ready]")
        raise typer.Exit(Exit.FAILED)


async def _demo(flags: dict[str, Any], seconds: float | None, *, browser: bool, as_json: bool) -> bool:
    """Run a node, show it when it is ready, stop it after `seconds`; whether it ever was ready."""
    settings = await admitted(flags, None)
    node = asyncio.create_task(node_runner()(settings))
    view = asyncio.create_task(_when_ready(settings))
    await asyncio.wait([node, view], return_when=asyncio.FIRST_COMPLETED)
    ready = view.done() and view.result() is not None
    view.cancel()
    if ready:
        _show(settings, view.result(), browser=browser, as_json=as_json)
    if not ready or seconds is not None:
        await asyncio.wait([node], timeout=seconds if ready else 0)
        node.cancel()
    try:
        await node
    except asyncio.CancelledError:
        pass
    return ready


def _show(settings: Settings, view: Any, *, browser: bool, as_json: bool) -> None:
    if as_json:
        print_json(view)
    say(f"ready: {address(settings)} (stop with Ctrl-C)")
    if browser:
        webbrowser.open(address(settings))


async def _when_ready(settings: Settings) -> Any:
    """The cluster, as soon as the node is ready to tell it; None when it was not in time."""
    verify = str(Path(settings.tls_cert)) if settings.tls_cert else True
    async with httpx2.AsyncClient(base_url=address(settings), verify=verify) as client:
        try:
            async with asyncio.timeout(_READY_WITHIN_S):
                while not await _is_ready(client):  # noqa: ASYNC110 - asked as anybody would, over HTTP
                    await asyncio.sleep(_ASK_EVERY_S)
        except TimeoutError:
            return None
        return (await client.get("/api/v1/cluster")).json()


async def _is_ready(client: httpx2.AsyncClient) -> bool:
    try:
        return (await client.get("/readyz")).is_success
    except httpx2.TransportError:
        return False
