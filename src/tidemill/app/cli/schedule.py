"""`tidemill schedule`: cron lines that create tasks, straight in the store."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import typer

from tidemill.app.audit import audited
from tidemill.app.cli.options import ConfigFlag, DataFlag, StoreFlag, given_json, local_settings, opened
from tidemill.app.cli.output import JsonFlag, instant, person, print_facts, print_json, print_rows, tell
from tidemill.app.settings import Settings
from tidemill.app.task_views import moments_view, schedule_view
from tidemill.tasks.order import key_id
from tidemill.tasks.registry import Registry
from tidemill.tasks.schedule import NEXT_MOST, next_runs, read_schedule
from tidemill.tasks.schedules import (
    create_schedule,
    delete_schedule,
    get_schedule,
    list_schedules,
    run_now,
    update_schedule,
)

app = typer.Typer(add_completion=False, help="Schedules that create tasks.", no_args_is_help=True)

COLUMNS = ["name", "cron", "zone", "queue", "paused", "missed", "last", "runs", "dropped", "error"]

Name: TypeAlias = Annotated[str, typer.Argument(help="Name of the schedule")]
Zone: TypeAlias = Annotated[str | None, typer.Option("--zone", help="A time zone such as Europe/Berlin")]
Params: TypeAlias = Annotated[str | None, typer.Option("--params", help="The params of its tasks, as JSON")]
Priority: TypeAlias = Annotated[int | None, typer.Option("--priority", help="The priority of its tasks")]
Missed: TypeAlias = Annotated[
    Literal["catch_up", "skip"] | None,
    typer.Option("--missed", help="What is done about moments at which no node led"),
]
Description: TypeAlias = Annotated[str | None, typer.Option("--description", help="A text")]


@app.command()
def create(
    name: Name,
    cron: Annotated[str, typer.Option("--cron", help="Minute, hour, day of month, month, day of week")],
    queue: Annotated[str, typer.Option("--queue", help="The queue that its tasks go to")],
    zone: Zone = None,
    params: Params = None,
    priority: Priority = None,
    missed: Missed = None,
    description: Description = None,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a schedule. Example: tidemill schedule create nightly --cron '30 2 * * *' --queue reports"""
    given = {"cron": cron, "queue": queue, "zone": zone, "params": params, "priority": priority}
    values = _fields({"name": name, **given, "missed": missed, "description": description})
    made = asyncio.run(_create(local_settings(store, data, config), values))
    tell(made, as_json, f"schedule {name} is made")


@app.command()
def update(
    name: Name,
    cron: Annotated[str | None, typer.Option("--cron", help="Five fields, as for create")] = None,
    queue: Annotated[str | None, typer.Option("--queue", help="The queue that its tasks go to")] = None,
    zone: Zone = None,
    params: Params = None,
    priority: Priority = None,
    missed: Missed = None,
    description: Description = None,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Change a schedule; what is not named stays. Example: tidemill schedule update nightly --priority 5"""
    given = {"cron": cron, "queue": queue, "zone": zone, "params": params, "priority": priority}
    changes = _fields({**given, "missed": missed, "description": description})
    if not changes:
        raise typer.BadParameter("name something to change")
    after = asyncio.run(_update(local_settings(store, data, config), name, changes, "update"))
    tell(after, as_json, f"schedule {name} is updated")


@app.command(name="list")
def list_(
    store: StoreFlag = None, data: DataFlag = None, config: ConfigFlag = None, as_json: JsonFlag = False
) -> None:
    """List schedules. Example: tidemill schedule list --json"""
    rows = asyncio.run(_list(local_settings(store, data, config)))
    if as_json:
        print_json(rows)
    else:
        print_rows([row | {"last": instant(row["last"])} for row in rows], COLUMNS)


@app.command()
def show(
    name: Name,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Show a schedule. Example: tidemill schedule show nightly"""
    seen = asyncio.run(_show(local_settings(store, data, config), name))
    if as_json:
        print_json(seen)
    else:
        print_facts(seen | {"last": instant(seen["last"]), "ctime": instant(seen["ctime"])})


@app.command(name="next")
def next_(
    name: Name,
    n: Annotated[int, typer.Option("-n", min=1, max=NEXT_MOST, help="How many moments")] = 5,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Show its next moments, none while it is paused. Example: tidemill schedule next nightly -n 3"""
    rows = asyncio.run(_next(local_settings(store, data, config), name, n))
    if as_json:
        print_json(rows)
    else:
        print_rows(rows, ["local", "at"])


@app.command()
def run(
    name: Name,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Create a task by it now and print the task's id. Example: tidemill schedule run nightly"""
    made = asyncio.run(_run(local_settings(store, data, config), name))
    if as_json:
        print_json(made)
    else:
        typer.echo(made["id"])


@app.command()
def pause(
    name: Name,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Let it create no tasks. Example: tidemill schedule pause nightly"""
    paused = asyncio.run(_update(local_settings(store, data, config), name, {"paused": True}, "pause"))
    tell(paused, as_json, f"schedule {name} is paused")


@app.command()
def resume(
    name: Name,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Let it create tasks again, from its next moment on. Example: tidemill schedule resume nightly"""
    resumed = asyncio.run(_update(local_settings(store, data, config), name, {"paused": False}, "resume"))
    tell(resumed, as_json, f"schedule {name} is resumed")


@app.command()
def delete(
    name: Name,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Remove a schedule; the tasks that it created stay. Example: tidemill schedule delete nightly"""
    asyncio.run(_delete(local_settings(store, data, config), name))
    tell({"deleted": name}, as_json, f"schedule {name} is deleted")


def _fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was named. Raises `BadTask` for params that are no JSON."""
    named = {name: value for name, value in given.items() if value is not None}
    if "params" in named:
        named["params"] = given_json("--params", named["params"])
    return named


async def _create(settings: Settings, values: dict[str, Any]) -> dict[str, Any]:
    schedule = read_schedule(values)
    async with opened(settings, create=False) as store:
        async with audited(store, person(), "schedule create", schedule.name) as entry:
            entry.detail = f"{schedule.cron} in {schedule.queue}"
            return schedule_view(await create_schedule(store, schedule))


async def _update(settings: Settings, name: str, changes: dict[str, Any], verb: str) -> dict[str, Any]:
    async with opened(settings, create=False) as store:
        async with audited(store, person(), f"schedule {verb}", name) as entry:
            entry.detail = ", ".join(f"{field}={value}" for field, value in changes.items())
            return schedule_view(await update_schedule(store, name, changes))


async def _list(settings: Settings) -> list[dict[str, Any]]:
    async with opened(settings, create=False) as store:
        return [schedule_view(schedule) for schedule in await list_schedules(store)]


async def _show(settings: Settings, name: str) -> dict[str, Any]:
    async with opened(settings, create=False) as store:
        return schedule_view(await get_schedule(store, name))


async def _next(settings: Settings, name: str, n: int) -> list[dict[str, Any]]:
    async with opened(settings, create=False) as store:
        found = await get_schedule(store, name)
        return moments_view(found, next_runs(found, await store.now(), n))


async def _run(settings: Settings, name: str) -> dict[str, Any]:
    async with opened(settings, create=False) as store:
        async with audited(store, person(), "schedule run", name):
            key = await run_now(store, Registry(store).submit, name)
            return {"id": key_id(key), "key": key}


async def _delete(settings: Settings, name: str) -> None:
    async with opened(settings, create=False) as store:
        async with audited(store, person(), "schedule delete", name):
            await delete_schedule(store, name)
