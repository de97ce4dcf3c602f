"""The partition: a document that carries an opaque task for a handler, and a lease on it.

{"handler": "files", "task": "ZnNkZnNk…", "state": "outstanding", "generation": 0, "attempt": 0,
 "not_before": 0, "limit": 5, "progress": …, "error": …}     holder, expire and term beside it

outstanding ── taken, while the lease stands: in progress ──► done ──► removed by the leader
     ▲  ▲                     │    │   │
     │  └── lease ran out ────┘    │   └── raised too often ──► failed, until somebody looks at it
     └───── raised, after a pause ─┘
stopping: the leader asks it back. Its holder stops and lets go, and nobody takes it again.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from tidemill.store import (
    BadRequest,
    Body,
    Collection,
    Condition,
    Conflict,
    Document,
    Done,
    Fence,
    Outcome,
    Store,
    Write,
    eq,
)

OUTSTANDING, STOPPING, DONE, FAILED = "outstanding", "stopping", "done", "failed"

IN_PROGRESS = "in progress"
"""Not written down: what outstanding partitions are while they are held."""

PARTITIONS = Collection(
    "partitions",
    fields=(
        ("handler", "text"),
        ("state", "text"),
        ("generation", "integer"),
        ("attempt", "integer"),
        ("not_before", "integer"),
    ),
    indexes=(("handler",), ("state",)),
)

_DECLARED = tuple(name for name, _ in PARTITIONS.fields)

ATTEMPTS = 5
"""How often a handler may raise before its partition has failed."""

_PAGE = 10_000
_AT_ONCE = 500
_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS = 1_000, 300_000


class Partition(Struct, frozen=True):
    """A partition as one look at the store showed it. Instants are the store's milliseconds.

    `attempt` counts how often its handler has raised. `progress` and `error` are what was last reported;
    they are left out where only the leases are read.
    """

    key: str
    handler: str
    state: str
    generation: int
    attempt: int
    not_before: int
    holder: str | None
    term: int
    expire: int
    revision: int
    progress: object = None
    error: str | None = None

    @property
    def name(self) -> str:
        """What its creator calls it."""
        return self.key.removeprefix(self.handler + "/")

    def held(self, now: int) -> bool:
        """Whether it is in progress."""
        return self.expire > now

    def state_at(self, now: int) -> str:
        return IN_PROGRESS if self.state == OUTSTANDING and self.held(now) else self.state

    def free(self, now: int) -> bool:
        """Whether it may be taken."""
        return self.state == OUTSTANDING and max(self.expire, self.not_before) <= now


def key_of(handler: str, name: str) -> str:
    if "/" in handler:
        raise BadRequest(f"{handler!r} cannot name a handler: its partitions could not be told from others'")
    return f"{handler}/{name}"


def outstanding(handler: str, task: bytes, *, generation: int = 0, limit: int = ATTEMPTS) -> Body:
    """The body of a new partition."""
    return {
        "handler": handler,
        "task": base64.b64encode(task).decode("ascii"),
        "state": OUTSTANDING,
        "generation": generation,
        "attempt": 0,
        "not_before": 0,
        "limit": limit,
    }


def task_of(body: Body) -> bytes:
    return base64.b64decode(body["task"])


def partition_of(document: Document) -> Partition:
    body = document.body
    return Partition(
        key=document.key,
        handler=str(body.get("handler", "")),
        state=str(body.get("state", "")),
        generation=int(body.get("generation", 0)),
        attempt=int(body.get("attempt", 0)),
        not_before=int(body.get("not_before", 0)),
        holder=document.holder,
        term=document.term,
        expire=document.expire,
        revision=document.revision,
        progress=body.get("progress"),
        error=body.get("error"),
    )


def after_success(body: Body) -> Body:
    return {**body, "state": DONE}


def after_failure(body: Body, error: str, now: int) -> Body:
    """What a handler that raised leaves behind: another try after a pause, or the end of trying.

    One that the leader asks back stays so.
    """
    attempt = int(body.get("attempt", 0)) + 1
    tried = {**body, "attempt": attempt, "error": error}
    if attempt >= int(body.get("limit", ATTEMPTS)):
        return {**tried, "state": FAILED}
    return {**tried, "not_before": now + pause_ms(attempt)}


def pause_ms(attempt: int) -> int:
    """How long to wait after the `attempt`-th failure: each time twice as long."""
    return int(min(_FIRST_PAUSE_MS * 2 ** min(attempt - 1, 30), _LONGEST_PAUSE_MS))


async def read_documents(
    store: Store, *where: Condition, fields: Iterable[str] | None = None
) -> list[Document]:
    """The documents of partitions by key: up to ten thousand in one request."""
    names = None if fields is None else tuple(fields)
    page = await store.find(PARTITIONS, *where, limit=_PAGE, fields=names)
    documents = page.documents
    while page.cursor is not None:
        page = await store.find(PARTITIONS, *where, limit=_PAGE, cursor=page.cursor, fields=names)
        documents += page.documents
    return documents


async def read_leases(store: Store, *where: Condition) -> list[Partition]:
    """Who holds which partition and until when, without tasks and reports: all in one request."""
    return [partition_of(found) for found in await read_documents(store, *where, fields=_DECLARED)]


async def list_partitions(store: Store, handler: str | None = None) -> list[Partition]:
    """All partitions, or those of one handler, with what was last reported for each, without their tasks."""
    where = [] if handler is None else [eq("handler", handler)]
    fields = (*_DECLARED, "progress", "error")
    return [partition_of(found) for found in await read_documents(store, *where, fields=fields)]


async def create_partitions(
    store: Store,
    handler: str,
    tasks: Mapping[str, bytes],
    fence: Fence,
    *,
    limit: int = ATTEMPTS,
    generation: int = 0,
) -> bool:
    """Write partitions under a fence of the leader's; one that is there already stays as it is.

    False says that some were not written, or that it is not known: they exist, or the fence has passed.
    """
    writes = [
        Write(
            PARTITIONS,
            key_of(handler, name),
            outstanding(handler, task, generation=generation, limit=limit),
            None,
            fence,
        )
        for name, task in tasks.items()
    ]
    return all(isinstance(outcome, Done) for outcome in await write_all(store, writes))


async def write_all(store: Store, writes: Sequence[Write]) -> list[Outcome]:
    """As `Store.write`, in parts that none takes long."""
    outcomes: list[Outcome] = []
    for begin in range(0, len(writes), _AT_ONCE):
        outcomes += await store.write(writes[begin : begin + _AT_ONCE])
    return outcomes


async def retry_partition(store: Store, key: str) -> None:
    """Have a failed partition tried again, as often as a new one. Raises `Conflict` if it has not failed."""
    found = await store.get(PARTITIONS, key)
    if found is None or found.body["state"] != FAILED:
        raise Conflict(f"partition {key!r} has not failed")
    body = {**found.body, "state": OUTSTANDING, "attempt": 0, "not_before": 0}
    await store.replace(PARTITIONS, key, body, expect=found.revision)
