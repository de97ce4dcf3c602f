import logging

import pytest

from tidemill.pipeline.log.file import FileRef
from tidemill.pipeline.log.listing import INLINE, Listing
from tidemill.pipeline.log.output import OutputLog, Written, differing, place
from tidemill.pipeline.log.root import Root, RootOwner, Version
from tidemill.pipeline.log.segment import SegmentRef
from tidemill.pipeline.step import Limits, assign, complete
from tidemill.store import Store, open_store


class MemoryFiles:
    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}

    async def put(self, name: str, content: bytes) -> FileRef:
        self.contents[name] = content
        return FileRef(name, len(content), "-")

    async def read(self, ref: FileRef) -> bytes:
        return self.contents[ref.name]


def segment(view: str, total: int | None) -> SegmentRef:
    return SegmentRef(view, 1, FileRef("x", 1, "-"), total)


def stepped(root: Root, count: int) -> Root:
    for _ in range(count):
        root = assign(root, [], Limits(), clock=0)
        root = complete(root, root.last, Listing())
    return root


def test_the_four_cases_of_an_output() -> None:
    root = stepped(Root("p", {}, versions=(Version(1, 9),), retained_steps=3), 6)
    root = assign(root, [], Limits(), clock=0)

    assert [place(root, step) for step in (0, 2, 3, 5, 6)] == [
        Written.OUTDATED,
        Written.OUTDATED,
        Written.REPEATED,
        Written.REPEATED,
        Written.APPENDED,
    ]
    with pytest.raises(ValueError, match="step 7 cannot have an output yet"):
        place(root, 7)


def test_a_step_that_was_not_assigned_has_no_output() -> None:
    with pytest.raises(ValueError, match="step 0 cannot have an output yet"):
        place(Root("p", {}), 0)


def test_outputs_are_compared_by_view_whatever_their_files() -> None:
    one = [segment("a", 7), segment("b", 5)]

    assert differing(one, [segment("b", 5), segment("a", 3), segment("a", 4), segment("c", 0)]) == []
    assert differing(one, [segment("a", 7), segment("b", 6)]) == ["b"]
    assert differing(one, [segment("a", 7)]) == ["b"]
    assert differing([segment("a", -1)], [segment("a", 2**64 - 1)]) == []


@pytest.fixture
async def store() -> Store:
    return await open_store("memory:").open()


async def test_an_output_that_differs_is_thrown_away_with_a_warning(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    files = MemoryFiles()
    owner = RootOwner(store, "p", files, folder="root")
    await owner.take_over(Root("p", {}))
    output = OutputLog(owner, files, folder="out")
    await owner.update(lambda root: assign(root, [], Limits(), clock=0))
    before = [segment("top", 7)] * (INLINE + 1)

    assert await output.write(0, before) is Written.APPENDED
    with caplog.at_level(logging.WARNING, "tidemill"):
        assert await output.write(0, before) is Written.REPEATED
        assert caplog.records == []
        assert await output.write(0, [segment("top", 8)]) is Written.DIFFERENT
    assert caplog.records[0].message == "output.differs"
    assert (await output.read(0))[1] == tuple(before)
