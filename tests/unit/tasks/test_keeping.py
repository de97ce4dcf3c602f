"""What becomes of what a job leaves."""

from pathlib import Path

import msgspec
import pytest

from tidemill.cluster import Grant
from tidemill.tasks import task as moves
from tidemill.tasks.blobs import Shelves, announce_blobs
from tidemill.tasks.held import Held
from tidemill.tasks.keeping import Keeping
from tidemill.tasks.order import Order
from tidemill.tasks.queue import Queue
from tidemill.tasks.registry import Registry
from tidemill.tasks.runner.job import Crashed, Ending, Finished, Output, Stopped
from tidemill.tasks.status import SUCCEEDED


@pytest.fixture
async def held(registry: Registry, tmp_path: Path) -> Held:
    """A task of a plugin, in hands, where large outputs go to a folder."""
    await announce_blobs(registry.store, str(tmp_path / "blobs"))
    key, _ = await registry.submit(Order(queue="work"))
    _, _, document = await registry.get(key)
    return Held(document, Queue(name="work", plugin="demo"), Grant(key, 1, float("inf")))


async def test_a_small_result_stays_in_the_document(registry: Registry, held: Held) -> None:
    event = Keeping(Shelves(registry.store), {}).at_once(held, Finished(SUCCEEDED, b'{"digest":"abc"}'))

    assert event == moves.Finished(SUCCEEDED, {"digest": "abc"})


async def test_a_result_that_looks_like_the_reference_of_a_blob_is_not_taken_for_one(
    registry: Registry, held: Held
) -> None:
    """A plugin that tells of a file has just these to tell."""
    shelves, result = Shelves(registry.store), b'{"name":"a.txt","size":3,"digest":"abc"}'
    keeping, ending = Keeping(shelves, {}), Finished(SUCCEEDED, result)
    assert keeping.at_once(held, ending) is None
    event = await keeping.put_away(held, ending)

    assert isinstance(event, moves.Finished)
    assert await shelves.read(event.result) == result


@pytest.mark.parametrize(
    ("ending", "told"),
    [
        (Crashed("its runner died of SIGSEGV"), "its runner died of SIGSEGV\n"),
        (
            Stopped("ran longer than 1 s", "timeout", Output(), Output(5, b"hello")),
            "hello\nran longer than 1 s\n",
        ),
        (Stopped("cancelled", "cancel", Output(), Output(6, b"hello\n")), "hello\n"),
        (Finished(7), None),
    ],
)
async def test_why_a_task_was_ended_is_in_stderr_too(
    registry: Registry, held: Held, ending: Ending, told: str | None
) -> None:
    event = Keeping(Shelves(registry.store), {}).at_once(held, ending)

    assert event is not None
    assert msgspec.structs.asdict(event)["stderr"] == told
