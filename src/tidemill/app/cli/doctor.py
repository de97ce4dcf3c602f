"""`tidemill doctor`: is this machine fit."""

import asyncio
from dataclasses import asdict
from typing import Annotated

import typer

from tidemill.app.cli.exits import Exit
from tidemill.app.cli.options import ConfigFlag, DataFlag, StoreFlag, setting
from tidemill.app.cli.output import JsonFlag, print_json
from tidemill.app.doctor import Finding, State, examine
from tidemill.app.layers import local_layers
from tidemill.app.settings import resolve

app = typer.Typer(add_completion=False)

MARKS = {State.OK: ("✓", "green"), State.WARNING: ("!", "yellow"), State.PROBLEM: ("✗", "red")}


@app.command()
def doctor(
    store: StoreFlag = None,
    data: DataFlag = None,
    host: Annotated[str | None, setting("host")] = None,
    port: Annotated[str | None, setting("port")] = None,
    config: ConfigFlag = None,
    spark: Annotated[bool, typer.Option("--spark", help="Also start Spark and time a tiny query.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Check Python, Java, Spark, SQLite, data folder, port, clock and store; say how to fix what is wrong.

    Example: tidemill doctor --store postgresql://db/tidemill
    """
    flags = {"store": store, "data": data, "host": host, "port": port}
    findings = asyncio.run(examine(resolve(local_layers(flags, config)), spark=spark))
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            _print(finding)
    if any(finding.state is State.PROBLEM for finding in findings):
        raise typer.Exit(Exit.UNHEALTHY)


def _print(finding: Finding) -> None:
    mark, colour = MARKS[finding.state]
    typer.echo(f"{typer.style(mark, fg=colour)} {finding.check:<7} {finding.message}")
    if finding.fix:
        typer.echo(f"  {'':<7} fix: {finding.fix}")
