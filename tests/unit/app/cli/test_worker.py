"""Workers on the command line."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tidemill.worker import wire
from unit.app.cli.commands import Run
from unit.worker.nodes import Node, Visit, node


@asynccontextmanager
async def worker(played: Node, *arguments: str) -> AsyncIterator[Process]:
    command = [sys.executable, "-m", "tidemill", "worker", "run", played.url, "--queue", "shout", *arguments]
    environment = os.environ | {"TIDEMILL_TOKEN": "secret"}
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=DEVNULL, stderr=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def greeted(played: Node) -> Visit:
    visit = await played.visit()
    await visit.greet()
    assert await visit.hear() == wire.Status(wire.READY)
    return visit


async def test_a_worker_runs_its_program_and_finishes_after_a_signal(tmp_path: Path) -> None:
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    async with (
        node() as played,
        worker(played, "--exec", f"sh -c 'echo progress: 7 >&2; cat {fifo}'") as process,
    ):
        visit = await greeted(played)
        ref = await visit.give("one", b"text")
        assert await visit.hear() == wire.Progress(7, None, "one", 1)
        process.send_signal(signal.SIGTERM)
        assert await visit.hear() == wire.Status(wire.BUSY)
        await asyncio.to_thread(fifo.write_bytes, b"done")

        assert await visit.hear() == wire.Result("one", 1, content=wire.inline(b"done"))
        await visit.settle(ref)
        assert await visit.gone() == 1000
        assert await asyncio.wait_for(process.wait(), 30) == 0


async def test_a_second_signal_ends_it_at_once_with_its_program(tmp_path: Path) -> None:
    script = """trap "" TERM; echo "progress: pid $$" >&2; while :; do sleep 1000; done"""
    async with node() as played, worker(played, "--exec", f"sh -c '{script}'") as process:
        visit = await greeted(played)
        await visit.give("one", b"text")
        pid = int((await visit.hear()).info.removeprefix("pid "))
        process.send_signal(signal.SIGINT)
        assert await visit.hear() == wire.Status(wire.BUSY)
        process.send_signal(signal.SIGINT)

        assert await asyncio.wait_for(process.wait(), 30) == 130
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_a_refused_worker_ends_with_5_and_the_reason() -> None:
    async with node() as played, worker(played, "--exec", "cat", "--name", "vm", "--id", "vm-1") as process:
        visit = await played.visit()
        assert await visit.hear() == wire.Registered("vm", "vm-1", "secret")
        await visit.close(1008, "the token opens nothing")
        _, said = await asyncio.wait_for(process.communicate(), 30)

        assert process.returncode == 5
        assert b"error: the token opens nothing [worker.refused]" in said


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("localhost:7433", "--exec", "cat"), "[worker.bad_address]"),
        (("http://localhost", "--exec", "no-such-program"), "[worker.bad_program]"),
        (("http://localhost", "--exec", "cat", "--plain", "--slots", "2"), "--plain takes one job at a time"),
        (("http://localhost", "--exec", "cat", "--log-level", "loud"), "--log-level is"),
        (("http://localhost", "--exec", "cat", "--ca", "nowhere.pem"), "[worker.bad_address]"),
        (("http://localhost",), "--exec"),
    ],
)
def test_what_cannot_work_is_wrong_usage(run: Run, arguments: tuple[str, ...], reason: str) -> None:
    result = run("worker", "run", *arguments)

    assert (result.code, result.out) == (2, "")
    assert reason in result.err
