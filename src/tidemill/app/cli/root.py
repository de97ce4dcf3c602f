"""The root command. Nouns are listed here and loaded when named, so that a start stays quick."""

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.main import get_command

from tidemill.app.cli.later import Later
from tidemill.base.version import __version__

EXAMPLES = """Keeps answers fresh and work done, coordinated by nothing but a database.

[bold]Examples[/bold]

  tidemill demo                                    something to look at
  tidemill up                                      a node on this machine
  tidemill up --store postgresql://db/tidemill     one more node of a cluster
  tidemill node list --json                        which nodes there are
  tidemill queue create demo --plugin words        a queue for a plugin
  tidemill task submit demo --params '{}' --wait   a task, and what comes of it
  tidemill pipeline explain auctions.sql           how views in SQL would be kept up to date
  tidemill doctor                                  is this machine fit
"""

NOUNS = (
    *("up", "demo", "node", "cluster", "queue", "task", "batch", "worker", "schedule", "plugin", "balance"),
    *("config", "token", "pipeline", "doctor", "version"),
)


class Nouns(Later):
    """Finds each noun in the module of its name."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(NOUNS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in NOUNS:
            return None
        command = get_command(import_module(f"tidemill.app.cli.{cmd_name}").app)
        command.name = cmd_name
        return command


app = typer.Typer(
    cls=Nouns,
    help=EXAMPLES,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tidemill {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which release this is")
    ] = False,
) -> None:
    pass
