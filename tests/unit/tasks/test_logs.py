"""What a task prints, told while it runs and to the end."""

import pytest

from tidemill.cluster import Grant
from tidemill.store import Claim, eq
from tidemill.tasks.blobs import Shelves
from tidemill.tasks.held import Held
from tidemill.tasks.logs import follow
from tidemill.tasks.order import Order
from tidemill.tasks.pieces import Journal
from tidemill.tasks.queue import get_queue
from tidemill.tasks.registry import Registry
from tidemill.tasks.status import QUEUED, RUNNING, SUCCEEDED
from tidemill.tasks.task import TASKS, Finished


async def running(registry: Registry) -> Held:
    """A task that runs."""
    await registry.submit(Order(queue="work"))
    claim = Claim((eq("status", QUEUED),), "token", 60_000, set=(("status", RUNNING), ("node", "vm-1")))
    [found] = await registry.store.claim(TASKS, claim)
    queue = await get_queue(registry.store, "work")
    return Held(found, queue, Grant(found.key, found.term, float("inf")))


@pytest.mark.parametrize(
    ("early", "late", "shown"),
    [
        (b"plain\n", b"more\n", b"more\n"),
        (b"\xff\xfe\x00 no text\n", b"more \xff\n", b"more \\xff\n"),
        (b"caf\xc3", b"\xa9\n", b"\xa9\n"),
        (b"\xff", b"", b""),
    ],
)
async def test_everything_is_told_once_though_the_document_keeps_it_as_text(
    registry: Registry, early: bytes, late: bytes, shown: bytes
) -> None:
    held, journal = await running(registry), Journal(registry.store)
    journal.put(held, "stdout", 0, early)
    await journal.flush()
    told = follow(registry, Shelves(registry.store), held.key, wait=True)
    first = await anext(told)
    text = (early + late).decode(errors="backslashreplace")
    await registry.change(held.key, Finished(SUCCEEDED, stdout=text), release=True)
    rest = [piece.data async for piece in told]

    assert (first.data, b"".join(rest)) == (early, shown)
