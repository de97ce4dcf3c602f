"""The node list: one leased document per node.

A node is alive while its lease stands. Its document says how to reach it:

    {"name": "vm-1", "token": "2c71…", "address": "http://10.0.0.5:7433", "slots": 8, "release": "0.1.0",
     "started": 1794742498338, "pid": 4711, "handlers": ["files"], "plugins": ["words"],
     "broken": {"acme:add": "plugin 'acme:add': there is no package 'acme' on this node"}}

`expire` beside it tells when it was last heard of. The leader removes the entries of nodes that have
been silent for long; to be wrong about that does no harm, since a node that comes back enters itself
again.
"""

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from tidemill.base.log import get_logger
from tidemill.base.version import __version__
from tidemill.cluster.errors import NameTaken
from tidemill.cluster.lease import Timing
from tidemill.store import Body, Collection, Document, Fence, Store, Term, Write, ge, lt

log = get_logger("tidemill.nodes")

LEASES = Collection("leases")
LEADER = "leader"

_PREFIX = "node:"
_AFTER = "node;"

SILENT_LEASES = 6
"""For how many leases a node may be silent before its entry is removed."""


class Node(Struct, frozen=True):
    """An entry of the node list. Instants are the store's milliseconds.

    `handlers` are those of partitions that run there, `plugins` those of tasks; `broken` are plugins that
    should run there and cannot, with the reason.
    """

    name: str
    token: str
    address: str
    slots: int
    release: str
    started: int
    expire: int
    term: int
    alive: bool
    handlers: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    broken: Mapping[str, str] = {}  # msgspec gives each its own

    def entry(self) -> dict[str, str | int]:
        """The entry as the node list of a cluster state document shows it."""
        return {"token": self.token, "workers": self.slots}


def node_key(name: str) -> str:
    return _PREFIX + name


def node_name(key: str) -> str:
    return key.removeprefix(_PREFIX)


def entry_of(
    key: str,
    token: str,
    *,
    address: str,
    slots: int,
    started: int,
    handlers: Iterable[str] = (),
    plugins: Iterable[str] = (),
    broken: Mapping[str, str] | None = None,
) -> Body:
    """What this process writes into its entry."""
    return {
        "name": node_name(key),
        "token": token,
        "address": address,
        "slots": slots,
        "release": __version__,
        "started": started,
        "pid": os.getpid(),
        "handlers": sorted(handlers),
        "plugins": sorted(plugins),
        "broken": dict(broken or {}),
    }


async def join(store: Store, name: str, port: int, token: str, address: str, timing: Timing) -> str:
    """Take a name for this node, and return its key: `name`, or `name-port` when that is taken.

    An entry with our own address is what an earlier process left behind: we have the port, so it is
    dead, and its lease is waited for.
    """
    for candidate in (name, f"{name}-{port}"):
        key = node_key(candidate)
        lease = (await store.hold(LEASES, [key], token, timing.ttl_ms))[key]
        if not lease.held_by(token) and await _left_behind(store, key, address):
            left_s = (lease.expire - lease.now) / 1000
            log.info("node.waits_for_its_name", node=candidate, seconds=round(left_s, 1))
            await asyncio.sleep(left_s)
            lease = (await store.hold(LEASES, [key], token, timing.ttl_ms))[key]
        if lease.held_by(token):
            return key
    raise NameTaken(f"nodes {name!r} and {name}-{port!r} are alive; give this one another name")


async def _left_behind(store: Store, key: str, address: str) -> bool:
    found = await store.get(LEASES, key)
    return found is not None and found.body.get("address") == address


async def advertise(store: Store, key: str, term: int, entry: Body) -> None:
    """Write this node's entry, under the term of its own lease."""
    await store.replace(LEASES, key, entry, expect=Term(term))


async def list_nodes(store: Store) -> list[Node]:
    """All nodes in the list, the silent ones included, by name."""
    now = await store.now()
    nodes: list[Node] = []
    cursor: str | None = None
    while True:
        page = await store.find(LEASES, ge("key", _PREFIX), lt("key", _AFTER), limit=1000, cursor=cursor)
        nodes += [node_of(document, now) for document in page.documents if document.body]
        if page.cursor is None:
            return nodes
        cursor = page.cursor


async def leader(store: Store) -> Document | None:
    """The leader's lease: `holder` is its token. None when nobody leads now."""
    found = await store.get(LEASES, LEADER)
    return found if found is not None and found.expire > await store.now() else None


def node_of(document: Document, now: int) -> Node:
    """The node of an entry. A process that has just taken the name has not written the entry yet, and what is
    there says when another began: then `started` is 0."""
    body = document.body
    own = body.get("token", document.holder) == document.holder
    return Node(
        name=node_name(document.key),
        token=document.holder or "",
        address=str(body.get("address", "")),
        slots=int(body.get("slots", 0)),
        release=str(body.get("release", "")),
        started=int(body.get("started", 0)) if own else 0,
        expire=document.expire,
        term=document.term,
        alive=document.expire > now,
        handlers=tuple(body.get("handlers", ())),
        plugins=tuple(body.get("plugins", ())),
        broken=dict(body.get("broken", {})),
    )


def silent(documents: Sequence[Document], now: int, timing: Timing) -> list[Document]:
    """Those whose lease ran out so long ago that they will hardly come back. Pure.

    A lease that was let go of (`expire` 0) belonged to a node that said goodbye.
    """
    return [found for found in documents if found.expire + SILENT_LEASES * timing.ttl_ms <= now]


async def remove_silent(store: Store, fence: Fence, timing: Timing) -> list[str]:
    """Remove the entries of silent nodes, as leader; return their keys.

    An entry that was taken up again in the meantime has a new term, and stays.
    """
    now = await store.now()
    page = await store.find(LEASES, ge("key", _PREFIX), lt("key", _AFTER), limit=1000)
    gone = silent(page.documents, now, timing)
    await store.write([Write(LEASES, found.key, None, Term(found.term), fence) for found in gone])
    return [found.key for found in gone]
