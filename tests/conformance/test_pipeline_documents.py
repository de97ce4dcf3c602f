"""The two documents of a pipeline, on every backend."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio
from msgspec.structs import replace

from tidemill.pipeline.errors import Forgotten, NoSuchName, NotOpen, SequenceGap, WrongSettings
from tidemill.pipeline.log.chain import PAGE
from tidemill.pipeline.log.file import BlobFiles, FileRef
from tidemill.pipeline.log.head import LogHead, Receipt
from tidemill.pipeline.log.input import InputLog
from tidemill.pipeline.log.output import OutputLog, Written
from tidemill.pipeline.log.root import Failure, Root, RootOwner, commit_version, load_root, needed_offset
from tidemill.pipeline.log.segment import SegmentRef
from tidemill.pipeline.step import Limits, abort, discard, pending
from tidemill.store import Collection, Fence, Store, open_store
from tidemill.store.blobs import BlobRef, open_blobs

FRESH = Root("p", {"ansi": "true"})
FENCES = Collection("pipeline_leases")


@dataclass
class Pipeline:
    """One process's view of a pipeline."""

    store: Store
    head: LogHead
    owner: RootOwner
    input: InputLog
    output: OutputLog


@dataclass
class World:
    url: str
    folder: Path
    stores: list[Store] = field(default_factory=list)

    async def connect(self, *, rows: int = 1000) -> Pipeline:
        store = await open_store(self.url).open()
        self.stores.append(store)
        files = BlobFiles(open_blobs(self.folder, create=True))
        head = LogHead(store, "p", files, folder="log", clock=lambda: 1)
        owner = RootOwner(store, "p", files, folder="root")
        read = InputLog(head, owner, clock=store.now, limits=Limits(rows=rows))
        return Pipeline(store, head, owner, read, OutputLog(owner, files, folder="out"))


@pytest_asyncio.fixture(params=["memory", "sqlite", "postgres"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    match request.param:
        case "memory":
            url = f"memory:{uuid4().hex}"
        case "sqlite":
            url = f"sqlite:///{tmp_path}/store.db"
        case _:
            url = request.getfixturevalue("postgres_url")
    world = World(url, tmp_path / "blobs")
    yield world
    for store in world.stores:
        await store.close()


def segment(rows: int = 1, table: str = "bids", total: int = 0) -> SegmentRef:
    return SegmentRef(table, rows, FileRef(f"{table}/{uuid4().hex}", 10, "-"), total)


async def appended(pipeline: Pipeline, count: int, rows: int = 1) -> None:
    for _ in range(count):
        await pipeline.head.append([segment(rows)])


async def step(pipeline: Pipeline, *outputs: SegmentRef) -> int:
    record = await pipeline.input.assign()
    await pipeline.output.write(record.number, outputs)
    return record.number


async def test_appends_of_many_processes_all_get_their_own_offset(world: World) -> None:
    pipelines = [await world.connect() for _ in range(3)]
    receipts = await asyncio.gather(
        *(pipeline.head.append([segment()]) for pipeline in pipelines for _ in range(30))
    )

    assert sorted(receipt.offset for receipt in receipts) == list(range(90))
    assert [entry.offset async for entry in pipelines[0].head.entries(0)] == list(range(90))


async def test_appends_that_come_together_are_written_together(world: World) -> None:
    pipeline = await world.connect()
    await appended(pipeline, 1)
    before = pipeline.store.statistics().calls
    await asyncio.gather(*(pipeline.head.append([segment()]) for _ in range(50)))

    assert pipeline.store.statistics().calls - before < 10


async def test_a_repeat_through_another_process_gets_the_same_receipt(world: World) -> None:
    one, other = await world.connect(), await world.connect()
    first = await one.head.append([segment()], producer="web", sequence=0)
    await other.head.append([segment()])
    second = await other.head.append([segment()], producer="web", sequence=1)

    assert await one.head.append([segment()], producer="web", sequence=0) == Receipt(
        first.offset, repeated=True
    )
    assert await one.head.append([segment()], producer="web", sequence=1) == Receipt(
        second.offset, repeated=True
    )
    assert (await one.head.append([segment()], producer="web", sequence=2)).offset == 3
    assert (await other.head.append([segment()], producer="web", sequence=3)).offset == 4
    with pytest.raises(SequenceGap):
        await one.head.append([segment()], producer="web", sequence=5)


async def test_an_append_of_many_files_keeps_them_all(world: World) -> None:
    pipeline = await world.connect()
    segments = [segment() for _ in range(300)]
    await pipeline.head.append(segments)
    [entry] = [entry async for entry in pipeline.head.entries(0)]

    assert entry.rows == 300
    assert await pipeline.head.segments(entry) == tuple(segments)
    assert {item.file.name for item in segments} < {name async for name in pipeline.head.names()}


async def test_a_step_takes_what_was_appended_and_puts_out_once(world: World) -> None:
    pipeline = await world.connect()
    await pipeline.owner.take_over(FRESH)
    sent = [segment(3), segment(4)]
    for one in sent:
        await pipeline.head.append([one])
    before = await pipeline.store.now()
    record = await pipeline.input.assign()
    out = segment(table="top", total=9)

    assert (record.number, record.offsets, record.rows_in) == (0, (0, 1), 7)
    assert before <= record.clock <= await pipeline.store.now()
    assert await pipeline.input.segments(record) == sent
    assert await pipeline.output.write(0, [out]) is Written.APPENDED
    assert await pipeline.output.write(0, [out]) is Written.REPEATED
    found, segments = await pipeline.output.read(0)
    assert (found.state, segments) == ("done", (out,))
    with pytest.raises(ValueError, match="cannot have an output yet"):
        await pipeline.output.write(1, [])
    with pytest.raises(NoSuchName):
        await pipeline.output.read(1)


async def test_a_step_is_assigned_for_good_before_it_runs(world: World) -> None:
    pipeline = await world.connect()
    await pipeline.owner.take_over(FRESH)
    await appended(pipeline, 1)
    record = await pipeline.input.assign()
    await appended(pipeline, 1)  # arrives after the crash of the owner

    heir = await world.connect()
    await heir.owner.take_over(FRESH)

    assert await heir.input.assign() == record
    assert record.offsets == (0,)


async def test_an_owner_that_was_replaced_can_write_nothing_any_more(world: World) -> None:
    old, new = await world.connect(), await world.connect()
    assert (await old.owner.take_over(FRESH)).term == 1
    await appended(old, 2)
    await old.input.assign()
    assert (await new.owner.take_over(FRESH)).term == 2

    with pytest.raises(NotOpen, match="taken over"):
        await old.output.write(0, [segment(table="top")])
    with pytest.raises(NotOpen):
        await old.input.assign()
    assert await new.output.write(0, []) is Written.APPENDED
    assert (await new.output.read(0))[1] == ()


async def test_a_given_term_must_be_higher(world: World) -> None:
    old, new = await world.connect(), await world.connect()
    await old.owner.take_over(FRESH, term=17)

    with pytest.raises(NotOpen, match="term 17"):
        await new.owner.take_over(FRESH, term=17)
    assert (await new.owner.take_over(FRESH, term=18)).term == 18


async def test_other_settings_change_nothing(world: World) -> None:
    owner, other = await world.connect(), await world.connect()
    await owner.owner.take_over(FRESH)

    with pytest.raises(WrongSettings, match="ansi"):
        await other.owner.take_over(Root("p", {"ansi": "false"}))
    await step(owner)
    assert await load_root(owner.store, "p") == owner.owner.root


async def test_reading_waits_for_input_and_can_be_cancelled(world: World) -> None:
    pipeline, producer = await world.connect(), await world.connect()
    await pipeline.owner.take_over(FRESH)
    token = asyncio.Event()
    reading = asyncio.create_task(pipeline.input.read(0, token))
    await asyncio.sleep(0)
    assert not reading.done()
    await appended(producer, 1)
    record = await reading
    assert record is not None
    assert record.offsets == (0,)
    await pipeline.output.write(0, [])

    reading = asyncio.create_task(pipeline.input.read(1, token))
    await asyncio.sleep(0)
    token.set()

    assert await reading is None
    assert await pipeline.input.read(0, token) == (await pipeline.output.read(0))[0]
    with pytest.raises(ValueError, match="not within"):
        await pipeline.input.read(2, token)


async def test_neither_document_grows_with_time(world: World) -> None:
    pipeline = await world.connect(rows=1)
    await pipeline.owner.take_over(Root("p", FRESH.settings, retained_steps=100))
    sizes = []
    for round_ in range(5):
        for _ in range(PAGE):
            await pipeline.head.append([segment()])
            await step(pipeline, segment(table="top"))
        root = await pipeline.owner.update(
            lambda root: commit_version(root, root.last, BlobRef(1, "-", "manifest"))
        )
        await pipeline.head.trim(needed_offset(root))
        head = await pipeline.head.load()
        sizes.append((len(head.entries.tail) + len(head.entries.pages), len(root.steps.tail)))
        assert root.last == PAGE * (round_ + 1)
        assert head.entries.first == max(0, PAGE * round_)

    assert max(entries for entries, _ in sizes) <= 2 * PAGE + 4
    assert max(steps for _, steps in sizes) <= 2 * PAGE
    assert pipeline.owner.root.first == 5 * PAGE - 100
    changes = await pipeline.output.read_since("top", 5 * PAGE - 90)
    assert [change.step for change in changes] == list(range(5 * PAGE - 89, 5 * PAGE))
    assert changes[0].offsets == (5 * PAGE - 89,)
    assert await pipeline.output.read_since("asks", 5 * PAGE - 90) == []
    with pytest.raises(Forgotten):
        await pipeline.output.read_since("top", 5)
    with pytest.raises(Forgotten):
        await pipeline.output.read(5)
    assert await pipeline.output.write(5, []) is Written.OUTDATED


async def test_input_that_was_trimmed_is_missed_and_not_taken_for_none(world: World) -> None:
    pipeline = await world.connect()
    await pipeline.owner.take_over(FRESH)
    await appended(pipeline, 2)
    record = await pipeline.input.assign()
    await pipeline.head.trim(1)

    with pytest.raises(Forgotten, match="input of step 0"):
        await pipeline.input.segments(record)


async def test_reading_waits_while_the_next_append_is_known_to_fail(world: World) -> None:
    pipeline = await world.connect()
    await pipeline.owner.take_over(FRESH)
    await appended(pipeline, 2)
    token = asyncio.Event()
    for step in (0, 1):
        assert await pipeline.input.read(step, token) is not None
        await pipeline.owner.update(lambda root: abort(root, root.last, Failure("bad")))
    token.set()

    assert await pipeline.input.read(2, token) is None
    await pipeline.owner.update(lambda root: discard(root, 0, 2))
    record = await pipeline.input.read(2, token)
    assert record is not None
    assert record.offsets == (1,)


async def test_what_an_aborted_step_had_stays_pending(world: World) -> None:
    pipeline = await world.connect()
    await pipeline.owner.take_over(FRESH)
    await appended(pipeline, 2)
    await pipeline.input.assign()
    failure = Failure("[DIVIDE_BY_ZERO]", "top", "select")
    root = await pipeline.owner.update(lambda root: abort(root, 0, failure))

    assert [item.failure for item in pending(root, await pipeline.input.waiting())] == [failure] * 2
    assert (await pipeline.input.assign()).offsets == (0,)
    assert (await pipeline.output.read(0))[0].state == "aborted"


async def test_every_file_that_is_referred_to_is_named(world: World) -> None:
    pipeline = await world.connect()
    await pipeline.owner.take_over(FRESH)
    outputs = [segment(table="top") for _ in range(9)]
    await step(pipeline, *outputs)
    await pipeline.owner.update(lambda root: commit_version(root, 1, BlobRef(1, "-", "manifest")))
    names = {name async for name in pipeline.owner.names()}

    assert names == {"manifest", "out/listing/t1/s0", *(output.file.name for output in outputs)}


async def test_with_a_lease_every_write_needs_it(world: World) -> None:
    pipeline = await world.connect()
    lease = (await pipeline.store.hold(FENCES, ["p"], "me", 60_000))["p"]
    files = BlobFiles(open_blobs(world.folder, create=True))
    owner = RootOwner(pipeline.store, "p", files, folder="root", fence=lambda: Fence(FENCES, "p", lease.term))
    await owner.take_over(FRESH, term=lease.term)
    await pipeline.store.release(FENCES, {"p": lease.term})

    with pytest.raises(NotOpen):
        await owner.update(lambda root: Root("p", {}, term=root.term))
    with pytest.raises(NotOpen, match="not open"):
        assert owner.root.term


async def test_a_step_that_was_aborted_is_not_read_again_as_it_was(world: World) -> None:
    """Whoever is to blame: here it is none of the appends, but what was to be filled, also without them."""
    pipeline = await world.connect()
    await pipeline.owner.take_over(FRESH)
    cancelled = asyncio.Event()
    cancelled.set()
    await appended(pipeline, 2)
    await pipeline.input.read(0, cancelled, fills=("view",))
    await pipeline.owner.update(lambda root: replace(abort(root, 0, Failure("bad")), blamed=()))

    alone = await pipeline.input.read(1, cancelled, fills=("view",))
    assert alone is not None
    assert (alone.number, alone.offsets, alone.fills) == (1, (), ("view",))
    await pipeline.owner.update(lambda root: replace(abort(root, 1, Failure("bad")), blamed=()))

    assert await pipeline.input.read(2, cancelled, fills=("view",)) is None
    again = await pipeline.input.read(2, cancelled, fills=("view",), again=True)
    assert again is not None
    assert (again.number, again.offsets, again.fills) == (2, (0, 1), ("view",))

    await pipeline.owner.update(lambda root: replace(abort(root, 2, Failure("bad")), blamed=()))
    await appended(pipeline, 1)
    longer = await pipeline.input.read(3, cancelled, fills=("view",))
    assert longer is not None
    assert longer.offsets == (0, 1, 2)
