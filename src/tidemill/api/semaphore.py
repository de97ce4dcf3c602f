"""`tidemill.Semaphore`: at most so many at a time, among processes that share nothing but a store."""

from dataclasses import dataclass

from tidemill.api.leased import Leased
from tidemill.cluster import Seat, Timing
from tidemill.cluster.semaphore import look, resize
from tidemill.cluster.turns import NAME_BYTES, SLOTS_MOST, keys_of, slot_of
from tidemill.store import Store


@dataclass(frozen=True, slots=True)
class Usage:
    """A semaphore at one moment: how many slots there are, which are held, how many wait.

    Before its first use `slots` is 0. Once it was made smaller, more may be held than there are.
    """

    slots: int
    held: tuple[int, ...]
    waiting: int


class Semaphore(Leased):
    """A semaphore in the store at `url`, of whose slots each is held by at most one of all who name it.

        with tidemill.Semaphore("postgresql://db/tidemill", "gpu", slots=2) as semaphore:
            train(device=semaphore.slot, fence=semaphore.fence)

    A slot is a lease of `ttl_s` seconds, renewed and lost as that of a `Lock`: a holder that dies gives it
    back within `ttl_s`, so none can leak. Slots are numbered from 0; `slot` is the one that is held.
    `fence` grows from holder to holder of one slot: whatever receives the work has to remember the highest
    that it has seen for each slot.

    Who waits is let in by order of arrival, as the store saw it. One that dies waiting holds up those behind
    it for `ttl_s` at most; one that is stopped for longer than that goes to the end of the line.

    `slots` is how many there are when the semaphore is first used; after that the number in the store stands,
    whatever later objects say, and `resize` changes it for all.

    Everything else is as with a `Lock`: taken once per object, let go of when dropped, and neither a forked
    child, a copy nor what comes out of a pickle holds it.
    """

    what = "semaphore"

    def __init__(self, url: str, name: str, *, slots: int, ttl_s: float = 5.0) -> None:
        super().__init__(url, name, ttl_s)
        if len(keys_of(name).prefix) > NAME_BYTES:
            raise ValueError(f"a semaphore's name may take {NAME_BYTES} bytes when quoted as in a URL")
        self._slots = _checked(slots)

    @property
    def slot(self) -> int:
        """The number of the slot that is held. Raises `LeaseLost` when none is."""
        return slot_of(self.guard().key)

    def resize(self, slots: int) -> None:
        """Change how many slots there are, for everybody.

        More are given out at once. With fewer nobody is thrown out: slots from that number on are not given
        out again, and nobody comes in until fewer are in than there are slots.
        """
        number = _checked(slots)
        self._ask(lambda store: resize(store, self.name, number))

    def usage(self) -> Usage:
        """Who is in and how many wait, right now."""
        return self._ask(self._usage)

    async def _usage(self, store: Store) -> Usage:
        scene = await look(store, keys_of(self.name))
        return Usage(scene.slots or 0, tuple(sorted(scene.held)), len(scene.line))

    def _taking(self, store: Store, timing: Timing) -> Seat:
        return Seat(store, self.name, self._slots, timing=timing)


def _checked(slots: int) -> int:
    if not 1 <= slots <= SLOTS_MOST:
        raise ValueError(f"slots is {slots}; 1 to {SLOTS_MOST:,} are allowed")
    return slots
