"""Whose turn it is at a semaphore. Pure.

A semaphore is a few documents of one collection, side by side:

    NAME:size          {"slots": 3}   how many slots there are
    NAME:slot:0 …      leases         who is in; `term` is the fence of that slot's holder
    NAME:wait:TOKEN …  leases         who waits; `term` is the place in line, as it grows by arrival

Safety rests on the slots' leases alone: a slot has one holder, and nobody tries for a slot that is not there.
The line only says who should try next, and for which slot: the first in line for the first free one, the
second for the second. So nobody who follows the line takes the turn of one who came before, and free slots
are filled all at once. One who died in line keeps a place until its ticket expires.
"""

from collections.abc import Iterable, Mapping
from urllib.parse import quote

from msgspec import Struct

from tidemill.store import Document

SLOTS_MOST = 1000

NAME_BYTES = 400
"""How long a quoted name may be, so that each key with it fits."""


class Keys(Struct, frozen=True):
    """Where the documents of a semaphore lie: in `prefix <= key < end`, and nothing else does."""

    prefix: str
    end: str
    size: str

    def slot(self, number: int) -> str:
        return f"{self.prefix}slot:{number}"

    def ticket(self, token: str) -> str:
        return f"{self.prefix}wait:{token}"


def keys_of(name: str) -> Keys:
    quoted = quote(name, safe="")
    return Keys(f"{quoted}:", f"{quoted};", f"{quoted}:size")


def slot_of(key: str) -> int:
    """The number of the slot that lies there."""
    return int(key.rpartition(":")[2])


class Scene(Struct, frozen=True):
    """A semaphore at the store's moment `now`. `slots` is None before anybody said how many there are."""

    now: int
    slots: int | None
    held: Mapping[int, Document]
    """Who is in, by number of the slot. After the semaphore was made smaller, also beyond its end."""
    line: tuple[Document, ...]
    """Who waits, in order of arrival."""
    lapsed: tuple[Document, ...]
    """The tickets of those who died waiting, or came in and did not clear up."""


def scene_of(keys: Keys, documents: Iterable[Document], now: int) -> Scene:
    """What the documents of a semaphore come to at `now`. An expired slot is free."""
    slots: int | None = None
    held: dict[int, Document] = {}
    tickets: list[Document] = []
    for found in documents:
        kind = found.key.removeprefix(keys.prefix).partition(":")[0]
        if kind == "size":
            slots = int(found.body["slots"])
        elif kind == "wait":
            tickets.append(found)
        elif found.expire > now:
            held[slot_of(found.key)] = found
    tickets.sort(key=lambda found: found.term)
    inside = {found.holder for found in held.values()}
    line = tuple(found for found in tickets if found.expire > now and found.holder not in inside)
    lapsed = tuple(found for found in tickets if found.expire <= now)
    return Scene(now, slots, held, line, lapsed)


def place(scene: Scene, token: str) -> int:
    """How many come before `token`: all of the line, if it has no ticket."""
    ahead = (at for at, found in enumerate(scene.line) if found.holder == token)
    return next(ahead, len(scene.line))


def turn(scene: Scene, token: str) -> int | None:
    """The slot that `token` may try for now; None while it is not its turn.

    Where more are in than there are slots, since it was made smaller, nobody has a turn.
    """
    slots = scene.slots or 0
    room = slots - len(scene.held)
    at = place(scene, token)
    if at >= room:
        return None
    free = [number for number in range(slots) if number not in scene.held]
    return free[at]


def idle_ms(scene: Scene, token: str) -> int:
    """How long `token`, whose turn it is not, will have none unless somebody acts, of which one is told.

    Until as many of those who are in or come before it have run out as are in its way.
    """
    at = place(scene, token)
    in_the_way = at - ((scene.slots or 0) - len(scene.held))
    others = [*scene.held.values(), *scene.line[:at]]
    ends = sorted(found.expire - scene.now for found in others)
    return min(ends[in_the_way:], default=0)
