"""Jobs that behave: run by warm runners, told in order, each ended once."""

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tidemill.tasks.call import pickle_call, pickle_function, read_outcome
from tidemill.tasks.runner import Finished, Output, Plugins, Pool, Recycle, Stopped, Untouched
from unit.tasks.runner.listening import OpenPool, Recorder, act, function


async def test_a_plugin_prints_answers_and_returns_a_result(open_pool: OpenPool) -> None:
    pool, seen = await open_pool()
    job = act("Greets", ["you"])
    pool.hand_in([job])
    end = await seen.end_of(job)

    assert (end.status, end.reason) == (7, None)
    assert end.stdout.content == b"hello ['you']\nbye\n"
    assert end.stderr.content == b"careful\ngone\n"
    assert msgspec.json.decode(end.result) == {"queue": "demo"}
    assert seen.told == [("started", job.id), ("ended", job.id)]


async def test_a_plugin_that_returns_nothing_has_succeeded(open_pool: OpenPool) -> None:
    pool, seen = await open_pool()
    job = act("says_nothing")
    pool.hand_in([job])

    assert await seen.end_of(job) == Finished(1)


async def test_a_plugin_sees_its_task_and_no_secret(
    open_pool: OpenPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMILL_STORE", "postgresql://me:secret@db")
    pool, seen = await open_pool()
    job = act("tells", {"a": 1})
    pool.hand_in([job])
    told = msgspec.json.decode((await seen.end_of(job)).result)

    assert told["task"] == [job.id, 1, job.fence, "demo", {"a": 1}]
    assert told["secrets"] == []
    assert told["pid"] != os.getpid()


async def test_a_function_is_called_and_its_outcome_told(open_pool: OpenPool) -> None:
    pool, seen = await open_pool()
    good, bad = function(b"abc"), function(b"raise")
    pool.hand_in([good, bad])

    assert await seen.end_of(good) == Finished(1, b"ABC")
    assert await seen.end_of(bad) == Finished(2, b"raised")


async def test_many_jobs_each_end_once_with_their_own_output(open_pool: OpenPool) -> None:
    pool, seen = await open_pool(size=3)
    jobs = [act("Greets", number) if number % 3 else function(b"%d" % number) for number in range(1000)]
    pool.hand_in(jobs)
    for number, job in enumerate(jobs):
        end = await seen.end_of(job)
        expected = b"hello %d\nbye\n" % number if number % 3 else b""
        assert end.stdout.content == expected

    assert pool.statistics().finished == 1000
    assert (pool.waiting, pool.running) == (0, 0)
    assert all(seen.told.index(("started", job.id)) < seen.told.index(("ended", job.id)) for job in jobs)


async def test_no_more_jobs_run_than_there_is_room(open_pool: OpenPool) -> None:
    pool, seen = await open_pool(size=2)
    jobs = [act("says_and_waits") for _ in range(5)]
    pool.hand_in(jobs)
    await seen.until(lambda: sum(what == "wrote" for what, _ in seen.told) == 2)

    assert (pool.running, pool.waiting) == (2, 3)


async def test_what_is_written_is_told_while_the_job_runs(open_pool: OpenPool) -> None:
    pool, seen = await open_pool()
    job = act("says_and_waits")
    pool.hand_in([job])
    await seen.until(lambda: (job.id, "stdout") in seen.written)

    assert seen.written[job.id, "stdout"] == b"ready\n"
    assert job.id not in seen.endings


async def test_progress_is_told_sparingly_and_its_last_word_always(open_pool: OpenPool) -> None:
    pool, seen = await open_pool()
    job = act("reports")
    pool.hand_in([job])
    await seen.end_of(job)

    assert seen.progress[0] == (0.0, "at 0")
    assert seen.progress[-1] == (99.0, "at 99")
    assert len(seen.progress) < 100


async def test_a_large_output_is_a_file_that_the_listener_owns(open_pool: OpenPool) -> None:
    pool, seen = await open_pool()
    job, next_job = act("writes", 5_000_000), act("Greets")
    pool.hand_in([job, next_job])
    end = await seen.end_of(job)

    assert end.status == 1
    assert (end.stdout.size, end.stdout.content) == (5_000_000, None)
    assert len(end.stdout.read()) == 5_000_000
    end.stdout.discard()
    assert not end.stdout.path.exists()
    assert (await seen.end_of(next_job)).stdout.content == b"hello None\nbye\n"


async def test_outputs_are_bytes_whatever_is_written(open_pool: OpenPool) -> None:
    pool, seen = await open_pool()
    job = act("writes_binary")
    pool.hand_in([job])

    assert (await seen.end_of(job)).stdout == Output(257, b"\xff" + bytes(range(256)))


@pytest.mark.parametrize("name", ["leaves_a_thread", "closes_output", "listens_to_signals", "sets_an_alarm"])
async def test_a_runner_that_a_task_changed_is_replaced(open_pool: OpenPool, name: str) -> None:
    pool, seen = await open_pool(size=1)
    before, changing, after = act("tells"), act(name), act("tells")
    pool.hand_in([before, changing, after])
    first, last = [msgspec.json.decode((await seen.end_of(job)).result) for job in (before, after)]

    assert seen.endings[changing.id] == Finished(1)
    assert first["pid"] != last["pid"]


@pytest.mark.parametrize("name", ["moves", "moves_to_nowhere"])
async def test_a_task_finds_itself_where_the_one_before_it_began(open_pool: OpenPool, name: str) -> None:
    pool, seen = await open_pool(size=1)
    jobs = [act("tells"), act(name), act("tells")]
    pool.hand_in(jobs)
    first, _, last = [(await seen.end_of(job)).result for job in jobs]

    told = ["pid", "cwd"]
    assert [msgspec.json.decode(last)[name] for name in told] == [
        msgspec.json.decode(first)[name] for name in told
    ]


async def test_what_a_task_does_to_its_surroundings_is_undone(open_pool: OpenPool) -> None:
    pool, seen = await open_pool(size=1)
    jobs = [act("surroundings"), act("redecorates"), act("surroundings")]
    pool.hand_in(jobs)
    first, changed, last = [await seen.end_of(job) for job in jobs]

    assert changed == Finished(1)
    assert msgspec.json.decode(last.result) == msgspec.json.decode(first.result)


async def test_a_runner_is_replaced_after_so_many_tasks(open_pool: OpenPool) -> None:
    pool, seen = await open_pool(size=1, recycle=Recycle(tasks=3))
    jobs = [act("tells") for _ in range(7)]
    pool.hand_in(jobs)
    pids = [msgspec.json.decode((await seen.end_of(job)).result)["pid"] for job in jobs]

    assert len(set(pids[:3])) == len(set(pids[3:6])) == 1
    assert len(set(pids)) == 3


async def test_a_runner_that_has_grown_is_replaced(open_pool: OpenPool) -> None:
    pool, seen = await open_pool(size=1, recycle=Recycle(memory_mb=1))
    jobs = [act("tells") for _ in range(3)]
    pool.hand_in(jobs)
    pids = {msgspec.json.decode((await seen.end_of(job)).result)["pid"] for job in jobs}

    assert len(pids) == 3


async def test_a_payload_and_an_outcome_may_be_large(open_pool: OpenPool) -> None:
    pool, seen = await open_pool(size=1)
    jobs = [function(b"x" * 5_000_000) for _ in range(4)]
    pool.hand_in(jobs)

    assert all([await seen.end_of(job) == Finished(1, b"X" * 5_000_000) for job in jobs])


async def test_functions_are_called_by_default_as_they_were_pickled(tmp_path: Path) -> None:
    seen = Recorder()
    pool = Pool(1, seen, Plugins(), tmp_path / "pool")
    await pool.start()
    job = function(pickle_call(pickle_function(lambda n: n + 1), (41,), {}))
    pool.hand_in([job])
    ending = await seen.end_of(job)
    await pool.stop(0)

    assert ending.status == 1
    assert read_outcome(ending.result) == (42, None)


async def cancel_first(
    open_pool: OpenPool, which: Callable[[list[str]], str]
) -> tuple[list[str], dict[str, object]]:
    pool, seen = await open_pool(size=1)
    jobs = [act("says_and_waits"), act("says_nothing"), act("says_nothing")]
    pool.hand_in(jobs)
    await seen.until(lambda: (jobs[0].id, "stdout") in seen.written)
    ids = [job.id for job in jobs]
    pool.cancel(which(ids))
    await seen.end_of(next(job for job in jobs if job.id == which(ids)))
    return ids, dict(seen.endings)


async def test_a_running_job_is_cancelled(open_pool: OpenPool) -> None:
    ids, endings = await cancel_first(open_pool, lambda ids: ids[0])

    assert endings[ids[0]] == Stopped("cancelled", "cancel", Output(6, b"ready\n"))


async def test_a_waiting_job_is_cancelled_and_nobody_else(open_pool: OpenPool) -> None:
    ids, endings = await cancel_first(open_pool, lambda ids: ids[1])

    assert endings == {ids[1]: Stopped("cancelled", "cancel")}


async def test_cancelling_an_unknown_job_changes_nothing(open_pool: OpenPool) -> None:
    pool, seen = await open_pool()
    pool.cancel("nobody")
    job = act("says_nothing")
    pool.hand_in([job])

    assert await seen.end_of(job) == Finished(1)


async def test_a_pool_that_stops_ends_what_runs_and_gives_back_what_waits(open_pool: OpenPool) -> None:
    pool, seen = await open_pool(size=1)
    jobs = [act("says_and_waits"), act("says_nothing")]
    pool.hand_in(jobs)
    await seen.until(lambda: (jobs[0].id, "stdout") in seen.written)
    await pool.stop(5)
    late = act("says_nothing")
    pool.hand_in([late])

    assert seen.endings == {
        jobs[0].id: Stopped("the node stopped while it ran", "shutdown", Output(6, b"ready\n")),
        jobs[1].id: Untouched("the node stopped"),
        late.id: Untouched("the node stopped"),
    }
    assert (pool.running, pool.waiting) == (0, 0)


async def test_a_pool_can_be_stopped_twice_and_started_again(open_pool: OpenPool) -> None:
    pool, seen = await open_pool()
    await pool.stop(0)
    await pool.stop(0)
    await pool.start()
    job = act("says_nothing")
    pool.hand_in([job])

    assert await seen.end_of(job) == Finished(1)
