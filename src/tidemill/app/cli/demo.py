"""`tidemill demo`: a node with something to look at, that leaves nothing behind."""

import asyncio
import tempfile
import webbrowser
from contextlib import ExitStack
from typing import Annotated, Any

import httpx2
import typer

from tidemill.app.cli.exits import Exit
from tidemill.app.cli.options import DataFlag, StoreFlag, setting
from tidemill.app.cli.output import print_json, say
from tidemill.app.cli.up import address, admitted, banner, node_runner
from tidemill.app.settings import has_display

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
    settings, any_token = await admitted(flags, None)
    listening: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    node = asyncio.create_task(node_runner()(settings, listening.set_result))
    await asyncio.wait([node, listening], return_when=asyncio.FIRST_COMPLETED)
    view = None
    if listening.done():
        say(banner(listening.result().name, listening.result().settings, any_token))
        view = await _shown(address(listening.result().settings), browser=browser, as_json=as_json)
    if view is None or seconds is not None:
        await asyncio.wait([node], timeout=seconds if view else 0)
        node.cancel()
    try:
        await node
    except asyncio.CancelledError:
        pass
    return view is not None


async def _shown(url: str, *, browser: bool, as_json: bool) -> Any:
    """Show the cluster once the node is ready; None when it was not in time."""
    view = await _when_ready(url)
    if view is not None:
        if "node" in view:
            say(running(view))
        say("ready; stop with Ctrl-C")
        if as_json:
            print_json(view)
        if browser:
            webbrowser.open(url)
    return view


def running(view: dict[str, Any]) -> str:
    """What runs, in one line like those of the banner."""
    alive = sum(node["alive"] for node in view.get("nodes", []))
    role = "leads" if view.get("leader") == view.get("node") else "follows"
    return f"{'running':<10}{view.get('name')} {role} under term {view.get('term')}; nodes alive: {alive}"


async def _when_ready(url: str) -> Any:
    """The cluster, asked for as anybody would, as soon as the node is ready to tell it."""
    # The server is our own, so there is nobody to be deceived by.
    async with httpx2.AsyncClient(base_url=url, verify=False) as client:
        try:
            async with asyncio.timeout(_READY_WITHIN_S):
                while not (await client.get("/readyz")).is_success:  # noqa: ASYNC110
                    await asyncio.sleep(_ASK_EVERY_S)
                return (await client.get("/api/v1/cluster")).json()
        except (TimeoutError, httpx2.TransportError):
            return None
