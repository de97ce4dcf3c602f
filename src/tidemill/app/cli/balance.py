"""`tidemill balance`: how many tasks at once by the time of the week, and how queues share them."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from tidemill.app.audit import audited
from tidemill.app.cli.options import ConfigFlag, DataFlag, StoreFlag, given_json, local_settings, opened
from tidemill.app.cli.output import JsonFlag, instant, person, print_facts, print_json, tell
from tidemill.app.errors import NotFound
from tidemill.app.settings import Settings
from tidemill.tasks.balancer import get_balance, get_report, set_balance

app = typer.Typer(add_completion=False, help="The balance between queues.", no_args_is_help=True)


@app.command()
def show(
    store: StoreFlag = None, data: DataFlag = None, config: ConfigFlag = None, as_json: JsonFlag = False
) -> None:
    """Show what is wanted, and what the node that balances last said. Example: tidemill balance show"""
    seen = asyncio.run(_show(local_settings(store, data, config)))
    if as_json:
        print_json(seen)
    else:
        moments = {name: instant((seen[name] or 0) * 1000) for name in ("disabled", "timestamp")}
        print_facts(seen | moments | {"queues": " | ".join(",".join(group) for group in seen["queues"])})


@app.command(name="set")
def set_(
    balance: Annotated[
        str, typer.Argument(help="JSON with max_tasks and queues, or a file of it; - is standard input")
    ],
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Put this in place of what was wanted.

    Example: tidemill balance set '{"max_tasks": {"* 07:00": 5}, "queues": [["bulk"], ["express"]]}'
    """
    after = asyncio.run(_set(local_settings(store, data, config), _read(balance)))
    tell(after, as_json, "the balance is set; nodes with the setting balance.enabled act on it")


def _read(given: str) -> Any:
    """JSON, a file of it, or standard input. Raises `BadTask` or `NotFound`."""
    if given == "-":
        return given_json("standard input", sys.stdin.buffer.read())
    if given.lstrip().startswith("{"):
        return given_json("the balance", given)
    if not Path(given).is_file():
        raise NotFound(f"there is no file {given}")
    return given_json(given, Path(given).read_bytes())


async def _show(settings: Settings) -> dict[str, Any]:
    async with opened(settings, create=False) as store:
        report = await get_report(store)
        said = {} if report is None else msgspec.to_builtins(report)
        blank = {"status": None, "message": None, "timestamp": None}
        return {**msgspec.to_builtins(await get_balance(store)), **blank, **said}


async def _set(settings: Settings, values: Any) -> Any:
    async with opened(settings, create=False) as store:
        async with audited(store, person(), "balance set", "balance") as entry:
            balance = await set_balance(store, values)
            entry.detail = f"queues={balance.queues}, max_tasks={balance.max_tasks}"
            return msgspec.to_builtins(balance)
