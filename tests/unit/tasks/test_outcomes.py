"""The outcomes of functions and of plugins, small and large."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidemill.store import open_store
from tidemill.store.blobs import INLINE_LIMIT
from tidemill.tasks.blobs import Shelves, announce_blobs
from tidemill.tasks.call import pickle_call, pickle_function, read_outcome, run
from tidemill.tasks.outcomes import fetch_outcome, has_outcome, outcome_at_hand
from tidemill.tasks.status import CANCELLED, FAILED, SUCCEEDED
from tidemill.tasks.task import Task


def task(status: int, **fields: Any) -> Task:
    return Task(queue="work", status=status, rank=0, turn=0, place=0, ctime=0, mtime=0, **fields)


@pytest.mark.parametrize(
    ("of", "has"),
    [
        (task(SUCCEEDED, payload={}, result={}), True),
        (task(FAILED, payload={}, result={}), True),
        (task(FAILED, payload={}), False),
        (task(CANCELLED, payload={}), False),
        (task(SUCCEEDED), True),
        (task(7, result=[1]), True),
        (task(FAILED, result={"why": "because"}), False),
        (task(CANCELLED), False),
    ],
)
def test_what_ended_by_itself_has_an_outcome(of: Task, has: bool) -> None:
    assert has_outcome(of) is has


@pytest.mark.parametrize("length", [10, INLINE_LIMIT])
async def test_what_a_function_or_a_plugin_answers_is_read_alike(length: int, tmp_path: Path) -> None:
    value = "x" * length
    status, outcome = run(pickle_call(pickle_function(str.upper), (value,), {}))
    async with open_store("memory:") as store:
        await announce_blobs(store, f"file://{tmp_path}/blobs")
        shelves = Shelves(store)
        small = length < INLINE_LIMIT
        kept = await shelves.put("plugin", msgspec.json.encode(value), inline=False)
        function = task(status, payload={}, result=await shelves.put("function", outcome))
        plugin = task(SUCCEEDED, result=value if small else kept)
        answers = [read_outcome(await fetch_outcome(one, shelves))[0] for one in (function, plugin)]

    assert answers == [value.upper(), value]
    assert [outcome_at_hand(one) is not None for one in (function, plugin)] == [small, small]
