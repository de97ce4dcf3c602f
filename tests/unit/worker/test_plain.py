"""Workers that speak the plain protocol, over real connections."""

import asyncio
from pathlib import Path
from typing import Any

from tidemill.worker import Job, wire
from unit.worker.nodes import LARGE, READY, Node, node, shout, working


async def plain_job(played: Node, content: bytes) -> Any:
    visit = await played.visit()
    await visit.greet()
    assert await visit.hear() == READY
    await visit.connection.send(content)
    return visit


async def test_a_plain_worker_gets_and_gives_bytes() -> None:
    async with node() as played, working(played.url, shout, plain=True):
        visit = await plain_job(played, b"text")
        assert visit.plain
        assert await visit.hear() == b"TEXT"

        await visit.say(wire.StatusAsked())
        assert await visit.hear() == READY
        await visit.connection.send(b"")
        assert await visit.hear() == b""


async def test_a_plain_file_is_one_message(tmp_path: Path) -> None:
    async with node(max_size=None) as played, working(played.url, lambda job: job.path, plain=True):
        visit = await plain_job(played, LARGE)

        assert await visit.hear() == LARGE


async def test_a_plain_worker_says_how_far_it_is_and_why_it_failed() -> None:
    def work(job: Job) -> None:
        job.progress(40, "words")
        raise RuntimeError("no luck")

    async with node() as played, working(played.url, work, plain=True):
        visit = await plain_job(played, b"")

        assert await visit.hear() == wire.Progress(40, "words")
        failed = await visit.hear()
        assert (failed.info, failed.task) == ("no luck", None)


async def test_a_plain_worker_comes_back_without_its_job() -> None:
    out = asyncio.Event()

    async def hang(job: Job) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            out.set()

    async with node() as played, working(played.url, hang, plain=True):
        visit = await plain_job(played, b"")
        visit.cut()
        await asyncio.wait_for(out.wait(), 30)

        visit = await played.visit()
        await visit.greet()
        assert await visit.hear() == READY
