"""Changes to tasks on the command line: to some that are named, or to all that match."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from tidemill.app.audit import audited
from tidemill.app.cli.options import opened
from tidemill.app.cli.output import person, print_json, say, tell
from tidemill.app.settings import Settings
from tidemill.app.task_filter import conditions
from tidemill.app.task_views import COUNTED, task_view
from tidemill.tasks.registry import Found, Many, Registry

One: TypeAlias = Callable[[Registry, str], Awaitable[Found]]
Every: TypeAlias = Callable[..., Awaitable[Many]]

_VERBS: Mapping[str, tuple[One, Every]] = {
    "cancel": (Registry.cancel, Registry.cancel_all),
    "retry": (Registry.retry, Registry.retry_all),
    "delete": (Registry.delete, Registry.delete_all),
}


def change_tasks(
    settings: Settings, verb: str, named: Sequence[str], filters: Mapping[str, Any], as_json: bool
) -> None:
    """Change the tasks that are named or, when none are, all that match; tell what came of it."""
    one, every = _VERBS[verb]
    if named:
        return change_named(settings, verb, named, one, as_json)
    done = asyncio.run(_change_all(settings, verb, filters, every))
    counts = {"changed": done.changed, "refused": done.refused}
    return tell(counts, as_json, f"{done.changed} tasks changed, {done.refused} could not be")


def change_named(settings: Settings, verb: str, named: Sequence[str], change: One, as_json: bool) -> None:
    """Change these tasks and say so of each. The first that cannot be changed ends it."""
    views = asyncio.run(_change_named(settings, verb, named, change))
    if as_json:
        print_json({"deleted": [view["id"] for view in views]} if verb == "delete" else views)


def matching(settings: Settings, filters: Mapping[str, Any]) -> str:
    """How many tasks match, in words."""
    found = asyncio.run(_count(settings, filters))
    return f"{found:,} tasks or more" if found == COUNTED else f"{found:,} tasks"


async def _change_named(
    settings: Settings, verb: str, named: Sequence[str], change: One
) -> list[dict[str, Any]]:
    views: list[dict[str, Any]] = []
    async with opened(settings, create=False) as store:
        registry = Registry(store)
        for task in named:
            async with audited(store, person(), f"task {verb}", task):
                key, after, document = await change(registry, task)
            views.append(task_view(key, after, document))
            state = "deleted" if verb == "delete" else views[-1]["state"]
            say(f"task {key} is {'being cancelled' if after.cancel else state}")
    return views


async def _change_all(settings: Settings, verb: str, filters: Mapping[str, Any], change: Every) -> Many:
    where = conditions(filters)
    async with opened(settings, create=False) as store:
        async with audited(store, person(), f"task {verb}", "all") as entry:
            entry.detail = ", ".join(f"{name}={value}" for name, value in filters.items() if value)
            return await change(Registry(store), *where)


async def _count(settings: Settings, filters: Mapping[str, Any]) -> int:
    where = conditions(filters)
    async with opened(settings, create=False) as store:
        return await Registry(store).count(*where, limit=COUNTED)
