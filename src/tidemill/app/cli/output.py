"""How commands print: JSON when asked, a table on a terminal, tab-separated lines anywhere else."""

import json
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias

import psutil
import typer
from rich.console import Console
from rich.table import Table

JsonFlag: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON")]


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2 if sys.stdout.isatty() else None, ensure_ascii=False) + "\n")


def print_rows(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print those columns of the rows, with their names above."""
    lines = [[_text(row.get(column)) for column in columns] for row in rows]
    if sys.stdout.isatty():
        table = Table(*columns, box=None, header_style="bold", pad_edge=False)
        for line in lines:
            table.add_row(*line)
        Console().print(table)
    else:
        for line in [list(columns), *lines]:
            sys.stdout.write("\t".join(line) + "\n")


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print one thing: a line for each of its fields that has a value."""
    rows = [{"field": name, "value": value} for name, value in facts.items() if value not in (None, [], {})]
    print_rows(rows, ["field", "value"])


def print_gap() -> None:
    """An empty line between two tables."""
    sys.stdout.write("\n")


def say(message: str) -> None:
    """A message to the person, apart from the data."""
    sys.stderr.write(message + "\n")


def tell(result: Any, as_json: bool, message: str) -> None:
    """What came of a change: as JSON when asked, else in words to the person."""
    if as_json:
        print_json(result)
    else:
        say(message)


def instant(milliseconds: int | None) -> str | None:
    """The store's milliseconds as people write a moment; 0 is no moment."""
    if not milliseconds:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def person() -> str:
    """Who runs the command line, for the audit log."""
    return f"cli:{psutil.Process().username()}@{socket.gethostname()}"


def _text(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ",".join(map(str, value)) or "-"
        case dict():
            return json.dumps(value, ensure_ascii=False) if value else "-"
        case _:
            return str(value).replace("\t", " ").replace("\n", " ")
