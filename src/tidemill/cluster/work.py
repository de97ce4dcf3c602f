"""One partition in the hands of one node: what its handler sees, and how its fate is written."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec.structs import replace

from tidemill.base.clock import Clock
from tidemill.cluster.errors import LeaseLost
from tidemill.cluster.lease import Grant
from tidemill.cluster.partitions import PARTITIONS, after_failure, after_success, task_of
from tidemill.store import Body, Document, Done, Fence, OutcomeUnknown, Store, Unavailable, Write

RETRY_S = 0.25
PASSING = (Unavailable, OutcomeUnknown)
"""What is tried again; anything else would come back for ever."""

ERROR_CHARACTERS = 1000


class Work:
    """A partition as its handler has it.

    Everything that is written for it carries its term, so that a holder that was taken for dead, and is
    not, cannot write any more: `report` does so by itself, and `fence` is for the handler's own writes.
    """

    def __init__(self, store: Store, document: Document, grant: Grant, clock: Clock) -> None:
        self.key = document.key
        self.handler = str(document.body["handler"])
        self.attempt = int(document.body.get("attempt", 0)) + 1
        self.progress: object = document.body.get("progress")
        """What was last reported, by whoever had it before too: where to go on from."""
        self.grant = grant
        self.lost = False
        self._store = store
        self._document = document
        self._clock = clock
        self._stop = asyncio.Event()
        self._turn = asyncio.Lock()

    @property
    def task(self) -> bytes:
        """What the leader was given for it."""
        return task_of(self._document.body)

    @property
    def stopping(self) -> bool:
        """Whether the handler should return soon. It may be asked from any thread."""
        return self._stop.is_set()

    async def wait_stop(self) -> None:
        """Return once the handler should stop."""
        await self._stop.wait()

    def fence(self) -> Fence:
        """What every write of the handler must carry. Raises `LeaseLost` when it may not act any more."""
        if self.lost or not self.grant.trusted(self._clock()):
            raise LeaseLost(f"partition {self.key!r} is not held, or cannot be trusted any more")
        return Fence(PARTITIONS, self.key, self.grant.term)

    async def report(self, progress: object) -> None:
        """Write down how far the work has come: any JSON. It is there on return.

        While the store is away it is tried again; `LeaseLost` when the partition is lost meanwhile, and
        `BadRequest` for what cannot be stored.
        """
        await self._write(lambda body: {**body, "progress": progress})
        self.progress = progress

    # The node's side

    def ask_stop(self) -> None:
        self._stop.set()

    async def succeed(self) -> None:
        """Record that it is done, and let go of it."""
        await self._write(after_success, release=True)

    async def fail(self, error: str) -> None:
        """Record that the handler raised, and let go of it."""
        now, told = await self._store_now(), storable(error)
        await self._write(lambda body: after_failure(body, told, now), release=True)

    async def _store_now(self) -> int:
        while True:
            self.fence()
            try:
                return await self._store.now()
            except PASSING:
                await asyncio.sleep(RETRY_S)

    async def _write(self, change: Callable[[Body], Body], *, release: bool = False) -> None:
        async with self._turn:
            while not await self._try_write(change, release=release):
                pass

    async def _try_write(self, change: Callable[[Body], Body], *, release: bool) -> bool:
        """Write at the revision that is known; False says that another one is known now."""
        before, fence = self._document, self.fence()
        body = change(before.body)
        try:
            [outcome] = await self._store.write(
                [Write(PARTITIONS, self.key, body, before.revision, fence, release)]
            )
            if isinstance(outcome, Done):
                self._document = replace(before, body=body, revision=outcome.revision)
                return True
            found = await self._store.get(PARTITIONS, self.key)
        except PASSING:
            await asyncio.sleep(RETRY_S)
            return False
        if found is None or found.term != fence.term:
            raise LeaseLost(f"partition {self.key!r} has passed on")
        self._document = found
        if found.body == body:
            return True  # the answer to an earlier attempt was lost
        if found.revision == before.revision or found.expire == 0:
            raise LeaseLost(f"the lease of partition {self.key!r} has run out")
        return False


def storable(text: str) -> str:
    """So much of a message as fits, without the halves of characters that names of files may bring along."""
    return text[:ERROR_CHARACTERS].encode(errors="backslashreplace").decode()


Handler: TypeAlias = Callable[[Work], Awaitable[None]]
"""Does the task of a partition.

To return is to be done, unless it was asked to stop: then the task counts as not done and will be begun
again, here or elsewhere. To raise is to be tried again after a pause. It is cancelled at once when the
lease is lost, and when it does not stop in time; one that will not end even so keeps its slot, and its
node from leaving. It must not keep its event loop busy.
"""
