"""Queues: their documents, and the verbs on them.

    {"name": "demo", "kind": "plugin", "plugin": "tidemill.demo", "threads": 4, "sort": "fifo"}

A queue's name is its key, and what its tasks call it by. Every change is compare-and-set on the document.
"""

import contextlib
import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from tidemill.store import Collection, Conflict, Document, Fence, Fenced, Store
from tidemill.tasks.errors import BadTask, NoSuchQueue, QueueExists
from tidemill.tasks.policy import REMOTE, Policy

QUEUES = Collection("queues")
RETIRED = Collection("retired_queues")
"""A document per queue that was deleted and kept its tasks for a time: its `keep_s`, while it has tasks."""


Kind: TypeAlias = Literal["plugin", "function", "remote"]
Sort: TypeAlias = Literal["fifo", "lifo", "default"]
Gfs: TypeAlias = Literal["auto", "true", "false"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")
MOST = 1_000_000
"""The largest bound: more tasks at a time than any cluster runs."""

DEFAULT = "default"
"""The queue of remote jobs that are of no type."""

LEADER_QUEUE = "leader"
"""The queue of functions that run on whichever node leads. It is made when it is first needed."""

LEAST_KEEP_S = 60.0
"""Whoever waits for a task, or may order it once more, must have the time to see how it ended."""

_ATTEMPTS = 20
_FOREVER_S = 10 * 365 * 86400


class Queue(Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """A queue as it was at one moment.

    `threads` bounds how many of its tasks are claimed or running in the whole cluster; None is no bound, 0
    keeps all waiting. Tasks run on every node, or only on those `nodes`, or on none of `not_nodes`. Once
    they have ended they are kept for `keep_s`; None is for ever.
    """

    name: str
    kind: Kind = "plugin"
    plugin: str | None = None
    threads: int | None = None
    sort: Sort = "default"
    nodes: tuple[str, ...] = ()
    not_nodes: tuple[str, ...] = ()
    paused: bool = False
    becomes: str | None = None
    batch_size: int | None = None
    gfs: Gfs = "auto"
    keep_s: float | None = None
    policy: Policy = field(default_factory=Policy)
    description: str | None = None
    ctime: int = 0
    revision: int = 0

    def runs_on(self, node: str) -> bool:
        """Whether its tasks may run on that node."""
        return node not in self.not_nodes and (not self.nodes or node in self.nodes)


def queue_of(document: Document) -> Queue:
    """The queue that a document holds; what a newer release adds is left out."""
    known = {name: value for name, value in document.body.items() if name in Queue.__struct_fields__}
    policy = known.get("policy", {})
    known["policy"] = {name: policy[name] for name in policy if name in Policy.__struct_fields__}
    return msgspec.convert({**known, "name": document.key, "revision": document.revision}, Queue)


def new_queue(values: Mapping[str, Any]) -> Queue:
    """A queue that somebody wants made; one of remote jobs tries them again unless it says otherwise."""
    policy = values.get("policy")
    if values.get("kind") == "remote" and (policy is None or isinstance(policy, Mapping)):
        values = {**values, "policy": {**REMOTE, **(policy or {})}}
    return read_queue(values)


def read_queue(values: Mapping[str, Any]) -> Queue:
    """A queue from what somebody sent. Raises `BadTask` with the reason."""
    try:
        queue = msgspec.convert(dict(values), Queue)
    except msgspec.ValidationError as error:
        raise BadTask(f"this is no queue: {error}") from error
    return checked(queue)


def checked(queue: Queue) -> Queue:
    """The queue, if it can be one. Raises `BadTask` with the reason."""
    policy = queue.policy
    wrong = [
        (not _NAME.fullmatch(queue.name), "name must be letters, digits, '.', '_', ':' and '-', at most 100"),
        (queue.kind == "plugin" and not queue.plugin, "name and plugin are required"),
        (queue.kind != "plugin" and queue.plugin is not None, f"a {queue.kind} queue has no plugin"),
        (
            queue.name == LEADER_QUEUE and queue.kind != "function",
            "that name is for functions that run on the node that leads",
        ),
        (not _is_bound(queue.threads), f"threads must be a non-negative integer up to {MOST:,}, or null"),
        (bool(set(queue.nodes) & set(queue.not_nodes)), "nodes and not_nodes name the same node"),
        (
            queue.batch_size is not None and not 1 <= queue.batch_size <= MOST,
            f"batch_size must be 1 to {MOST:,}",
        ),
        (
            queue.keep_s is not None and not LEAST_KEEP_S <= queue.keep_s <= _FOREVER_S,
            f"keep_s must be at least {LEAST_KEEP_S:g} seconds, or null",
        ),
        (not 1 <= policy.attempts <= 1000, "attempts must be 1 to 1000"),
        (not 1 <= policy.crashes <= 1000, "crashes must be 1 to 1000"),
        (
            not 0 <= policy.backoff_s <= policy.backoff_max_s <= _FOREVER_S,
            f"backoff_s must be 0 to backoff_max_s, and that at most {_FOREVER_S:,} seconds",
        ),
        (
            policy.timeout_s is not None and not 0 < policy.timeout_s <= _FOREVER_S,
            f"timeout_s must be more than 0 and at most {_FOREVER_S:,} seconds, or null",
        ),
        (not 0 <= policy.grace_s <= 3600, "grace_s must be 0 to 3600"),
        (
            policy.memory_mb is not None and not 16 <= policy.memory_mb <= MOST,
            f"memory_mb must be 16 to {MOST:,}, or null",
        ),
        (not 1 <= policy.output_mb <= 4096, "output_mb must be 1 to 4096"),
        (not 1 <= policy.stuck_s <= _FOREVER_S, "stuck_s must be at least 1"),
        (queue.becomes is not None and queue.kind != "remote", "becomes is for queues of kind remote"),
    ]
    for is_wrong, message in wrong:
        if is_wrong:
            raise BadTask(f"queue {queue.name!r}: {message}")
    return queue


def _is_bound(number: int | None) -> bool:
    return number is None or 0 <= number <= MOST


async def create_queue(store: Store, queue: Queue) -> Queue:
    """Write a queue that must not exist yet."""
    made = msgspec.structs.replace(checked(queue), ctime=await store.now())
    await _check_chain(store, made)
    try:
        revision = await store.create(QUEUES, queue.name, _body(made))
    except Conflict as error:
        raise QueueExists(f"queue {queue.name!r} exists already") from error
    return msgspec.structs.replace(made, revision=revision)


async def get_queue(store: Store, name: str) -> Queue:
    """The queue as it is now. Raises `NoSuchQueue`."""
    found = await store.get(QUEUES, name) if _NAME.fullmatch(name) else None
    if found is None:
        raise NoSuchQueue(f"there is no queue {name!r}")
    return queue_of(found)


async def list_queues(store: Store) -> list[Queue]:
    """All queues, by name."""
    queues: list[Queue] = []
    cursor: str | None = None
    while True:
        page = await store.find(QUEUES, limit=1000, cursor=cursor)
        queues += map(queue_of, page.documents)
        if page.cursor is None:
            return queues
        cursor = page.cursor


async def update_queue(
    store: Store,
    name: str,
    changes: Mapping[str, Any],
    *,
    expect: int | None = None,
    fence: Fence | None = None,
) -> Queue:
    """Set those fields and leave the others as they are, whoever else writes.

    With `expect`, only if the queue is still at that revision; else raises `Conflict`.
    """
    refused = sorted({"name", "kind", "ctime", "revision"} & set(changes))
    if refused:
        raise BadTask(f"queue {name!r}: {refused[0]} cannot be changed; create another queue")
    for attempt in range(_ATTEMPTS):
        before = await get_queue(store, name)
        after = read_queue(_merged(msgspec.to_builtins(before), changes))
        if after.becomes != before.becomes:
            await _check_chain(store, after)
        try:
            wanted = before.revision if expect is None else expect
            revision = await store.replace(QUEUES, name, _body(after), expect=wanted, fence=fence)
            return msgspec.structs.replace(after, revision=revision)
        except Fenced:
            raise
        except Conflict:
            if expect is not None or attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("the last attempt raises")


async def _check_chain(store: Store, queue: Queue) -> None:
    """Raises `BadTask` when results of the queue would become jobs of no queue, or of itself in the end."""
    names, name = [queue.name], queue.becomes
    while name is not None:
        if name in names:
            raise BadTask(f"queue {queue.name!r}: becomes goes in a circle: {' → '.join([*names, name])}")
        found = await store.get(QUEUES, name) if _NAME.fullmatch(name) else None
        if found is None or queue_of(found).kind != "remote":
            raise BadTask(f"queue {queue.name!r}: becomes is {name!r}, which is no queue of kind remote")
        names.append(name)
        name = queue_of(found).becomes


async def ensure_default(store: Store) -> None:
    """Have the queue of remote jobs that are of no type. May be repeated, by anybody."""
    if await store.get(QUEUES, DEFAULT) is None:
        with contextlib.suppress(QueueExists):
            await create_queue(store, new_queue({"name": DEFAULT, "kind": "remote"}))


def _merged(before: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    policy = changes.get("policy")
    merged = {**before, **changes}
    if isinstance(policy, Mapping):
        merged["policy"] = {**before.get("policy", {}), **policy}
    return merged


def _body(queue: Queue) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.to_builtins(queue)
    body.pop("revision", None)
    return body
