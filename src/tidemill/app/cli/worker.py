"""`tidemill worker`: programs that take tasks from nodes over a WebSocket."""

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from typer.main import get_group

from tidemill.app.cli.later import Later
from tidemill.app.cli.output import say
from tidemill.app.logs import configure_logs
from tidemill.worker.library import Worker
from tidemill.worker.run import TOKEN_VARIABLE, program

ROSTER = ("list", "show", "kick")


class Verbs(Later):
    """Loads those verbs that look into the store when one is named: a worker itself has no store."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *ROSTER]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in ROSTER:
            return get_group(import_module("tidemill.app.cli.worker_roster").app).get_command(ctx, cmd_name)
        return super().get_command(ctx, cmd_name)


app = typer.Typer(
    cls=Verbs,
    add_completion=False,
    help="Workers, which do the jobs of remote queues.",
    no_args_is_help=True,
)

Urls: TypeAlias = Annotated[
    list[str],
    typer.Argument(
        help="Address of a node, or of several: the next is tried when one is away", metavar="URL"
    ),
]
Command: TypeAlias = Annotated[
    str,
    typer.Option(
        "--exec",
        help="What to run for each job, without a shell. {payload} and {result} become paths of files; "
        "without them the payload is its standard input, and its standard output the result",
    ),
]
Token: TypeAlias = Annotated[
    str | None, typer.Option("--token", envvar=TOKEN_VARIABLE, help="A token with the role worker")
]
Identity: TypeAlias = Annotated[
    str | None, typer.Option("--id", help="What tells it from others; by default the machine and the queue")
]
Certificates: TypeAlias = Annotated[
    Path | None, typer.Option("--ca", help="File of certificates to trust, instead of the system's")
]


@app.callback()
def worker() -> None:
    pass


@app.command()
def run(
    urls: Urls,
    command: Command,
    queue: Annotated[
        str | None, typer.Option("--queue", help="Whose jobs; by default those of default")
    ] = None,
    slots: Annotated[int, typer.Option("--slots", min=1, max=1000, help="How many jobs at a time")] = 1,
    token: Token = None,
    name: Annotated[str | None, typer.Option("--name", help="For people; by default this host's")] = None,
    identity: Identity = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Speak the plain protocol: one job at a time")
    ] = False,
    ca: Certificates = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0.001, help="Seconds a job may take")
    ] = None,
    log_level: Annotated[str, typer.Option("--log-level", help="debug, info, warning or error")] = "info",
) -> None:
    """Run a program for each job of a queue, until interrupted: then it finishes the jobs that it has.

    Example: tidemill worker run http://localhost:7433 --queue sums --exec 'sha256sum {payload}'
    """
    if plain and slots > 1:
        raise typer.BadParameter("--plain takes one job at a time, so --slots must be 1")
    if log_level not in ("debug", "info", "warning", "error"):
        raise typer.BadParameter("--log-level is debug, info, warning or error")
    handler = program(command, timeout_s=timeout)
    taking = Worker(
        urls, handler, queue=queue, name=name, id=identity, token=token, slots=slots, plain=plain, ca=ca
    )
    configure_logs(log_level)
    hint = "Ctrl-C lets it finish its jobs, a second one ends it at once"
    taking.run(lambda: say(f"worker of queue {queue or 'default'}; {hint}"))
