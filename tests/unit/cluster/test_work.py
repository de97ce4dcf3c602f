"""How the fate of a partition is written, on every store that runs here."""

from typing import Any

import pytest

from tidemill.base.clock import boot_clock
from tidemill.cluster import LEASES
from tidemill.cluster.lease import Grant
from tidemill.cluster.partitions import (
    ATTEMPTS,
    FAILED,
    OUTSTANDING,
    PARTITIONS,
    STOPPING,
    after_failure,
    create_partitions,
    list_partitions,
    outstanding,
)
from tidemill.cluster.work import ERROR_CHARACTERS, Work
from tidemill.store import BadRequest, Fence, Outcome, OutcomeUnknown, Store, Unavailable, Write
from tidemill.store.backends.memory import MemoryBackend, MemoryServer


async def taken(store: Store) -> Work:
    """The work on a partition that is held for long."""
    lead = (await store.hold(LEASES, ["leader"], "leader", 600_000))["leader"]
    await create_partitions(store, "h", {"one": b"task"}, Fence(LEASES, "leader", lead.term))
    await store.hold(PARTITIONS, ["h/one"], "me", 600_000)
    document = await store.get(PARTITIONS, "h/one")
    assert document is not None
    return Work(store, document, Grant(document.key, document.term, boot_clock() + 600), boot_clock)


@pytest.mark.parametrize("progress", [float("nan"), {"at": object()}, "\udcff"])
async def test_progress_that_cannot_be_stored_is_refused_at_once(store: Store, progress: object) -> None:
    work = await taken(store)
    with pytest.raises(BadRequest):
        await work.report(progress)
    await work.report("something else")

    assert [found.progress for found in await list_partitions(store)] == ["something else"]


async def test_an_error_is_recorded_whatever_its_message_is(store: Store) -> None:
    work = await taken(store)
    await work.fail("no file x\udcff\0" + "y" * 10_000_000)

    [found] = await list_partitions(store)
    assert found.error is not None
    assert found.error.startswith("no file x\\udcff")
    assert len(found.error) < ERROR_CHARACTERS + 10
    assert (found.attempt, found.expire) == (1, 0)


async def test_a_write_whose_answer_was_lost_is_not_done_twice() -> None:
    class Deaf(Store):
        """Does the first write, and says that it does not know."""

        heard = False

        async def write(self, writes: Any) -> list[Outcome]:
            outcomes = await super().write(writes)
            if isinstance(writes[0], Write) and writes[0].release and not self.heard:
                self.heard = True
                raise OutcomeUnknown("the answer is lost")
            return outcomes

    async with Deaf(MemoryBackend(MemoryServer(), "0.1.0")) as store:
        await (await taken(store)).fail("broken")

        assert [(found.attempt, found.state) for found in await list_partitions(store)] == [(1, OUTSTANDING)]


async def test_a_report_is_tried_again_while_the_store_is_away() -> None:
    class Away(Store):
        left = 2

        async def write(self, writes: Any) -> list[Outcome]:
            if writes[0].body is not None and "progress" in writes[0].body and self.left:
                self.left -= 1
                raise Unavailable("away")
            return await super().write(writes)

    async with Away(MemoryBackend(MemoryServer(), "0.1.0")) as store:
        await (await taken(store)).report(17)

        assert [found.progress for found in await list_partitions(store)] == [17]


def test_what_the_leader_asked_back_stays_so_when_its_handler_raises() -> None:
    asked = {**outstanding("h", b""), "state": STOPPING}

    assert after_failure(asked, "broken", 1000)["state"] == STOPPING


def test_a_document_without_a_limit_has_the_usual_one() -> None:
    body = {"handler": "h", "task": "", "state": OUTSTANDING}
    for _ in range(ATTEMPTS - 1):
        body = after_failure(body, "broken", 1000)
        assert body["state"] == OUTSTANDING

    assert after_failure(body, "broken", 1000)["state"] == FAILED


async def test_a_handlers_name_may_not_be_taken_for_part_of_a_key(store: Store) -> None:
    with pytest.raises(BadRequest):
        await create_partitions(store, "a/b", {"c": b""}, Fence(LEASES, "leader", 1))
