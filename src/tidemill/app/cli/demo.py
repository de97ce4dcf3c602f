"""`tidemill demo`: a node and a pipeline at work, to look at, that leave nothing behind."""

import asyncio
import tempfile
import webbrowser
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import httpx2
import typer

from tidemill.app.cli.exits import Exit
from tidemill.app.cli.options import DataFlag, StoreFlag, setting
from tidemill.app.cli.output import print_json, say
from tidemill.app.cli.up import address, admitted, banner, node_runner
from tidemill.app.demo.child import driver
from tidemill.app.demo.figures import Figures
from tidemill.app.demo.screen import shown
from tidemill.app.logs import configure_logs
from tidemill.app.settings import Settings, has_display

app = typer.Typer(add_completion=False)

_READY_WITHIN_S = 60.0
_ASK_EVERY_S = 0.2
_LOG_LINES = 10
_REMEDY = {"pipeline.no_java": "; a node alone needs none: tidemill demo --no-pipeline"}


@dataclass(frozen=True, slots=True)
class Options:
    """What is wanted of a demo. Without `sql` the pipeline is that of the auctions."""

    sql: Path | None
    pipeline: bool
    seconds: float | None
    headless: bool
    as_json: bool


@app.command()
def demo(
    store: StoreFlag = None,
    data: DataFlag = None,
    host: Annotated[str | None, setting("host")] = None,
    port: Annotated[str | None, setting("port")] = None,
    sql: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="File of tables and views to show, on invented rows"),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="Stop after so many seconds of being ready")
    ] = None,
    headless: Annotated[bool, typer.Option("--headless", help="Open no browser, draw no table")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print cluster and figures as JSON")] = False,
    no_pipeline: Annotated[bool, typer.Option("--no-pipeline", help="A node alone, without Spark")] = False,
) -> None:
    """Start a node and a pipeline in a folder of their own, removed at the end unless --data names one.

    Every so often Spark computes one of the views from scratch. Ends with 1 if an answer was another.

    [bold]Examples[/bold]

      tidemill demo
      tidemill demo --sql views.sql
      tidemill demo --seconds 30 --headless --json
    """
    options = Options(sql, not no_pipeline, seconds, headless, as_json)
    with ExitStack() as stack:
        folder = data or stack.enter_context(tempfile.TemporaryDirectory(prefix="tidemill-"))
        flags = {"store": store, "data": folder, "host": host, "port": port}
        problem = asyncio.run(_demo(flags, options))
    if problem:
        say(f"error: {problem}")
        raise typer.Exit(Exit.FAILED)


async def _demo(flags: dict[str, Any], options: Options) -> str:
    """Run a node and what there is to see, until it is over; what was wrong, if anything was."""
    settings, any_token = await admitted(flags, None)
    listening: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    node = asyncio.create_task(node_runner()(settings, listening.set_result))
    await asyncio.wait([node, listening], return_when=asyncio.FIRST_COMPLETED)
    problem = "the node was not ready in time [demo.not_ready]"
    if listening.done():
        settings = listening.result().settings
        say(banner(listening.result().name, settings, any_token))
        cluster = await _when_ready(address(settings))
        if cluster is not None:
            problem = await _show(node, settings, cluster, options)
    node.cancel()
    with suppress(asyncio.CancelledError):
        await node
    return problem


async def _show(node: asyncio.Task[None], settings: Settings, cluster: Any, options: Options) -> str:
    """Show the cluster and, unless it is not wanted, a pipeline; what was wrong, if anything was."""
    if "node" in cluster:
        say(running(cluster))
    if not options.headless and has_display():
        webbrowser.open(address(settings))
    say("ready; stop with Ctrl-C")
    if options.pipeline:
        figures = await _pipeline(node, settings, options)
        cluster = {**cluster, "pipeline": figures.document()}
    if options.as_json:
        print_json(cluster)
    if options.pipeline:
        return _problem(figures)
    await asyncio.wait([node], timeout=options.seconds)
    return ""


async def _pipeline(node: asyncio.Task[None], settings: Settings, options: Options) -> Figures:
    """Run a pipeline in a process of its own until it, the node or the time is over; its last figures."""
    folder = Path(tempfile.mkdtemp(prefix="demo-", dir=settings.data))
    log = folder / "driver.log"
    with shown(address(settings), headless=options.headless, say=say) as show:
        configure_logs(settings.log_level)  # to what is standard error while something is drawn there
        async with driver(folder / "pipeline", options.sql, log, show) as child:
            over = (node, child.ended)
            await asyncio.wait([*over, child.running], return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait(over, timeout=options.seconds, return_when=asyncio.FIRST_COMPLETED)
            child.finish()
            await asyncio.wait(over, return_when=asyncio.FIRST_COMPLETED)
            say("stopping …")
    configure_logs(settings.log_level)
    if child.figures.phase == "failed" and not child.figures.code:
        say("\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:]))
    return child.figures


def _problem(figures: Figures) -> str:
    if figures.phase == "failed":
        return f"{figures.said}{_REMEDY.get(figures.code, '')} [{figures.code or 'demo.failed'}]"
    if figures.wrong:
        return f"{figures.wrong} of {figures.checked} answers were wrong [demo.wrong]"
    return ""


def running(view: dict[str, Any]) -> str:
    """What runs, in one line like those of the banner."""
    alive = sum(node["alive"] for node in view.get("nodes", []))
    role = "leads" if view.get("leader") == view.get("node") else "follows"
    return f"{'running':<10}{view.get('name')} {role} under term {view.get('term')}; nodes alive: {alive}"


async def _when_ready(url: str) -> Any:
    """The cluster, asked for as anybody would, as soon as the node is ready to tell it; None if it is not."""
    # The server is our own, so there is nobody to be deceived by.
    async with httpx2.AsyncClient(base_url=url, verify=False) as client:
        try:
            async with asyncio.timeout(_READY_WITHIN_S):
                while not (await client.get("/readyz")).is_success:  # noqa: ASYNC110
                    await asyncio.sleep(_ASK_EVERY_S)
                return (await client.get("/api/v1/cluster")).json()
        except (TimeoutError, httpx2.TransportError):
            return None
