"""`tidemill version`"""

import platform

import typer

import tidemill
from tidemill.app.cli.output import JsonFlag, print_json

app = typer.Typer(add_completion=False)


@app.command()
def version(as_json: JsonFlag = False) -> None:
    """Say which release this is."""
    if as_json:
        print_json({"tidemill": tidemill.__version__, "python": platform.python_version()})
    else:
        typer.echo(f"tidemill {tidemill.__version__}")
