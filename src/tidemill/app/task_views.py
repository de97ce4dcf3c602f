"""Tasks, queues and schedules as JSON: the same over HTTP and on the command line."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from tidemill.store import Document, eq, ge, lt, one_of
from tidemill.tasks.limits import NodeLimits
from tidemill.tasks.queue import Queue
from tidemill.tasks.registry import Registry
from tidemill.tasks.schedule import Schedule, local_time
from tidemill.tasks.status import BLOCKED, LIVE, ORPHANED, QUEUED, SUCCEEDED, is_live, name_of
from tidemill.tasks.task import Task, task_of

COUNTED = 10_000
"""How far tasks are counted for a summary, so that a look at long queues costs no long count."""

_CONTENTS = ("stdout", "stderr", "payload", "result")


def task_view(key: str, task: Task, document: Document | None = None) -> dict[str, Any]:
    """Every field of a task, with its status in a word, and who has it in hands under which fence.

    Content that is a blob is shown as `{"blob": name, "size": bytes}`, and that of a function as its size.
    """
    held = document if document is not None and is_live(task.status) else None
    return {
        "id": key,
        "state": name_of(task.status),
        **_plain(task),
        **{name: _content(task, name) for name in _CONTENTS},
        # The one that is under way counts to whoever looks, as it does to the plugin itself.
        "attempt": task.attempt + is_live(task.status),
        "holder": held.holder if held else None,
        "expire": held.expire if held else None,
        "fence": document.term if document else 0,
    }


def document_view(document: Document) -> dict[str, Any]:
    """The task that a document holds, as `task_view` shows it."""
    return task_view(document.key, task_of(document), document)


def is_blob(value: Any) -> bool:
    """Whether it is the reference of a blob, and no content."""
    return isinstance(value, dict) and {"name", "size", "digest"} <= value.keys()


def _content(task: Task, name: str) -> Any:
    value = getattr(task, name)
    if is_blob(value):
        return {"blob": value["name"], "size": value["size"]}
    # What a plugin answers is JSON of its own, which may look like anything.
    if task.payload is not None and isinstance(value, dict) and isinstance(value.get("base64"), str):
        text = value["base64"]
        return {"size": len(text) * 3 // 4 - text.count("=", -2)}
    return value


def queue_view(queue: Queue, plugins: Iterable[str]) -> dict[str, Any]:
    """Every field of a queue; `plugin_known` says whether a node that is alive can run its tasks."""
    return {**_plain(queue), "plugin_known": queue.plugin is None or queue.plugin in set(plugins)}


async def queue_counts(registry: Registry, name: str) -> dict[str, Any]:
    """How many of its tasks wait, are in hands, and have finished.

    Those named in `at_least` are that many or more.
    """
    mine = eq("queue", name)
    parked = await registry.count(mine, lt("status", ORPHANED), limit=COUNTED)
    waiting = await registry.count(mine, one_of("status", [QUEUED, BLOCKED]), limit=COUNTED)
    counts = {
        "queued": min(parked + waiting, COUNTED),
        "running": await registry.count(mine, one_of("status", LIVE), limit=COUNTED),
        "completed": await registry.count(mine, ge("status", SUCCEEDED), limit=COUNTED),
    }
    return {**counts, "at_least": [kind for kind, count in counts.items() if count == COUNTED]}


def schedule_view(schedule: Schedule) -> dict[str, Any]:
    """Every field of a schedule."""
    return _plain(schedule)


def moments_view(schedule: Schedule, moments: Iterable[int]) -> list[dict[str, Any]]:
    """Moments in the store's milliseconds, and as clocks in the schedule's zone show them."""
    return [{"at": moment, "local": local_time(moment, schedule.zone).isoformat()} for moment in moments]


def limits_view(limits: NodeLimits, token: str) -> dict[str, Any]:
    """What people have set for a node, and whether its process, which has that token, was marked as dead."""
    return {"maxthreads": limits.maxthreads, "draining": limits.draining, "dead": limits.dead == token}


async def tasks_on(registry: Registry, node: str) -> int:
    """How many tasks a node has in hands."""
    return await registry.count(one_of("status", LIVE), eq("node", node), limit=COUNTED)


class Listed(Protocol):
    """An entry of the node list."""

    @property
    def name(self) -> str: ...

    @property
    def alive(self) -> bool: ...

    @property
    def plugins(self) -> tuple[str, ...]: ...

    @property
    def broken(self) -> Mapping[str, str]: ...


def plugins_of_nodes(nodes: Iterable[Listed], here: Iterable[str] = ()) -> dict[str, list[str]]:
    """The plugins that nodes which are alive can run, and which nodes; those of `here` in any case."""
    found: dict[str, list[str]] = {name: [] for name in here}
    for node in nodes:
        for name in node.plugins if node.alive else ():
            found.setdefault(name, []).append(node.name)
    return dict(sorted(found.items()))


def plugin_rows(nodes: Sequence[Listed], here: Iterable[str] = ()) -> list[dict[str, Any]]:
    """All plugins of nodes which are alive: those that can run each, and why others that should cannot."""
    known = plugins_of_nodes(nodes, here)
    broken: dict[str, dict[str, str]] = {}
    for node in nodes:
        for name, reason in node.broken.items() if node.alive else ():
            broken.setdefault(name, {})[node.name] = reason
    return [
        {"name": name, "nodes": known.get(name, []), "broken": broken.get(name, {})}
        for name in sorted(known.keys() | broken.keys())
    ]


def _plain(value: Struct) -> dict[str, Any]:
    """All fields, those at their defaults too."""
    return {
        name: _plain(entry) if isinstance(entry, Struct) else msgspec.to_builtins(entry)
        for name, entry in msgspec.structs.asdict(value).items()
    }
