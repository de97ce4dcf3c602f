"""`tidemill pipeline`: incremental views in SQL."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from tidemill.app.cli.output import JsonFlag
from tidemill.app.errors import NotFound, NotInstalled

app = typer.Typer(help="Views in SQL that are kept up to date.", no_args_is_help=True)


@app.callback()
def pipeline() -> None:
    pass


@app.command()
def explain(
    file: Annotated[Path, typer.Argument(help="A file of SQL: CREATE TABLE and CREATE VIEW", metavar="FILE")],
    as_json: JsonFlag = False,
    as_dot: Annotated[bool, typer.Option("--dot", help="Print a graph, for Graphviz")] = False,
) -> None:
    """Show the operators that would keep the views of a file: their SQL, keys, state and cost.

    Nothing is created and no rows are read; Spark is started to read the SQL. What cannot be kept
    incrementally is refused with its line and column.

    [bold]Examples[/bold]

      tidemill pipeline explain auctions.sql
      tidemill pipeline explain auctions.sql --dot | dot -Tsvg > auctions.svg
    """
    if as_json and as_dot:
        raise typer.BadParameter("give either --json or --dot")
    if not file.is_file():
        raise NotFound(f"there is no file {file}")
    form = "json" if as_json else "dot" if as_dot else "text"
    sys.stdout.write(_api().explain_file(file, form) + "\n")


def _api() -> Any:
    """By name, as this loads Spark, which `--help` and a wrong name do without."""
    try:
        return import_module("tidemill.api.explain")
    except ModuleNotFoundError as error:
        raise NotInstalled(f"pipelines need {error.name}: pip install 'tidemill[spark]'") from error
