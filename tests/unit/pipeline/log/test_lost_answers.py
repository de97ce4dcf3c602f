"""What becomes of writes whose answer was lost."""

import pytest

from tidemill.pipeline.log.file import FileRef
from tidemill.pipeline.log.head import HEADS, LogHead
from tidemill.pipeline.log.listing import Listing
from tidemill.pipeline.log.root import Root, RootOwner, load_root
from tidemill.pipeline.step import Limits, assign, complete
from tidemill.store import Document, OutcomeUnknown, Store, Unavailable
from tidemill.store.backends.memory import MemoryBackend, MemoryServer
from tidemill.store.testing.faults import Fault, FaultyBackend


class NoFiles:
    async def put(self, name: str, content: bytes) -> FileRef:
        raise AssertionError(f"nothing should be written to {name}")

    async def read(self, ref: FileRef) -> bytes:
        raise AssertionError(f"nothing should be read from {ref.name}")


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer()


@pytest.fixture
def backend(server: MemoryServer) -> FaultyBackend:
    return FaultyBackend(MemoryBackend(server, "0.1.0"))


def log_head(backend: FaultyBackend) -> LogHead:
    return LogHead(Store(backend), "p", NoFiles(), folder="log", clock=lambda: 0)


def unsettled(backend: FaultyBackend) -> None:
    """Reading back fails once: the store itself cannot tell what became of the write."""

    async def fail() -> None:
        backend.before_reading_back = None
        raise Unavailable("simulated")

    backend.before_reading_back = fail


@pytest.mark.parametrize("fault", ["request lost", "answer lost", "late"])
@pytest.mark.parametrize("reads_back", [True, False])
async def test_an_append_happens_once(backend: FaultyBackend, fault: Fault, *, reads_back: bool) -> None:
    head = log_head(backend)
    await head.append([])
    backend.plan(fault)
    if not reads_back:
        unsettled(backend)
    receipt = await head.append([])
    last = await head.append([])

    assert (receipt.offset, last.offset) == (1, 2)
    assert (await head.load()).entries.next == 3


async def test_an_append_that_nobody_can_find_any_more_is_unknown(backend: FaultyBackend) -> None:
    head, other = log_head(backend), log_head(backend)
    backend.plan("answer lost")

    async def trim_and_fail() -> None:
        backend.before_reading_back = None
        await other.append([])
        await other.trim(2)
        raise Unavailable("simulated")

    backend.before_reading_back = trim_and_fail

    with pytest.raises(OutcomeUnknown):
        await head.append([])


@pytest.mark.parametrize("fault", ["request lost", "answer lost", "late"])
@pytest.mark.parametrize("reads_back", [True, False])
async def test_an_owner_writes_once(backend: FaultyBackend, fault: Fault, *, reads_back: bool) -> None:
    owner = RootOwner(Store(backend), "p", NoFiles(), folder="root")
    await owner.take_over(Root("p", {}))
    backend.plan(fault)
    if not reads_back:
        unsettled(backend)
    await owner.update(lambda root: assign(root, [], Limits(), clock=5))
    root = await owner.update(lambda root: complete(root, 0, Listing()))

    assert (root.steps.next, root.last) == (1, 1)
    assert await load_root(Store(backend), "p") == root


@pytest.mark.parametrize("fault", ["request lost", "answer lost", "late"])
async def test_when_the_store_goes_away_the_next_write_finds_out(
    backend: FaultyBackend, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = RootOwner(Store(backend), "p", NoFiles(), folder="root")
    await owner.take_over(Root("p", {}))
    backend.plan(fault)
    unsettled(backend)

    async def fail(*_: object) -> list[Document]:
        raise Unavailable("simulated")

    with monkeypatch.context() as patch:
        patch.setattr(backend, "get_many", fail)
        with pytest.raises(OutcomeUnknown):
            await owner.update(lambda root: assign(root, [], Limits(), clock=5))
    root = await owner.update(lambda root: assign(root, [], Limits(), clock=6))

    assert root.steps.next == 1
    assert root.under_way is not None
    assert root.under_way.clock == (5 if fault == "answer lost" else 6)


async def test_taking_over_survives_a_lost_answer(backend: FaultyBackend) -> None:
    owner = RootOwner(Store(backend), "p", NoFiles(), folder="root")
    backend.plan("answer lost")
    unsettled(backend)

    assert (await owner.take_over(Root("p", {}))).term == 2


async def test_an_error_of_the_store_reaches_every_append_that_waits(
    backend: FaultyBackend, server: MemoryServer
) -> None:
    head = log_head(backend)
    server.table(HEADS)["p"] = None  # type: ignore[assignment]

    with pytest.raises(Exception, match="NoneType"):
        await head.append([])
    del server.table(HEADS)["p"]
    assert (await head.append([])).offset == 0
