"""Jobs that do not behave: each has a clear end, the pool goes on, and no room is lost."""

import os
import shutil
import signal
from typing import Any

import psutil
import pytest

from tidemill.tasks.runner import Crashed, Ending, Finished, Job, NoPlugin, Plugins, Pool, Stopped, Untouched
from unit.tasks.runner.listening import HERE, OpenPool, Recorder, act


async def still_works(pool: Pool, seen: Recorder) -> bool:
    """Whether all of its room can be used."""
    jobs = [act("says_nothing") for _ in range(pool.size * 3)]
    pool.hand_in(jobs)
    return all([await seen.end_of(job) == Finished(1) for job in jobs]) and pool.running == 0


async def end(open_pool: OpenPool, job: Job) -> Any:
    """What becomes of the job among others, in a pool that goes on afterwards."""
    pool, seen = await open_pool(size=1)
    after = act("says_nothing")
    pool.hand_in([job, after])
    ending: Ending = await seen.end_of(job)
    assert await seen.end_of(after) == Finished(1)
    assert await still_works(pool, seen)
    return ending


def gone(pid: int) -> bool:
    """Whether the process dies, if it has not yet."""
    try:
        process = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return True
    return not psutil.wait_procs([process], timeout=20)[1]


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"status": 0}, "the plugin answered status 0, which is not positive or too large"),
        ({"status": "1"}, "the plugin answered status '1', which is no integer"),
        ([1], "the plugin answered [1], which is no object with a status"),
    ],
)
async def test_an_answer_that_is_none_fails(open_pool: OpenPool, params: Any, reason: str) -> None:
    ending = await end(open_pool, act("answers", params))

    assert (ending.status, ending.reason) == (2, reason)
    assert ending.stderr.content.decode() == reason + "\n"


async def test_an_exception_fails_with_its_traceback(open_pool: OpenPool) -> None:
    ending = await end(open_pool, act("raises"))

    assert (ending.status, ending.reason) == (2, "ValueError: no such thing")
    assert b"acts.py" in ending.stderr.content
    assert ending.stderr.content.endswith(b"ValueError: no such thing\n")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("leaves", "SystemExit: enough"),
        (f"{HERE}.exits_on_import:anything", "SystemExit: 3"),
        (f"{HERE}.acts:absent", "AttributeError: module 'unit.tasks.runner.acts' has no attribute 'absent'"),
        (
            f"{HERE}.acts:not_callable",
            f"TypeError: {HERE}.acts:not_callable is neither a class nor a function",
        ),
    ],
)
async def test_leaving_and_bad_imports_fail(open_pool: OpenPool, name: str, reason: str) -> None:
    ending = await end(open_pool, act(name))

    assert (ending.status, ending.reason) == (2, reason)
    assert ending.stderr.content.decode().strip().endswith(reason)


@pytest.mark.parametrize(
    ("job", "ending"),
    [
        (act("exits_at_once", 7), Crashed("its runner exited with code 7 before it answered", 7)),
        (act("exits_at_once", 0), Crashed("its runner exited with code 0 before it answered", 0)),
        (
            act(f"{HERE}.dies_on_import:anything"),
            Crashed("its runner exited with code 4 before it answered", 4),
        ),
    ],
)
async def test_an_exit_is_a_crash(open_pool: OpenPool, job: Job, ending: Crashed) -> None:
    assert await end(open_pool, job) == ending


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM"])
async def test_a_death_is_named_and_what_was_written_is_kept(open_pool: OpenPool, name: str) -> None:
    ending = await end(open_pool, act("is_killed", name))

    assert isinstance(ending, Crashed)
    assert ending.reason == f"its runner died of {name}"
    assert ending.stdout.content == b"last words\n"


async def test_garbage_instead_of_an_answer_is_a_crash(open_pool: OpenPool) -> None:
    ending = await end(open_pool, act("babbles"))

    assert isinstance(ending, Crashed)


async def test_a_job_that_hangs_is_stopped(open_pool: OpenPool) -> None:
    assert await end(open_pool, act("hangs", timeout_s=0.1)) == Stopped("ran longer than 0.1 s", "timeout")


async def test_a_job_that_will_not_end_is_killed(open_pool: OpenPool) -> None:
    pool, seen = await open_pool(size=1)
    job = act("will_not_end", grace_s=0.2)
    pool.hand_in([job])
    await seen.until(lambda: (job.id, "stdout") in seen.written)
    pool.cancel(job.id)
    ending = await seen.end_of(job)

    assert (ending.reason, ending.stdout.content) == ("cancelled", b"ready\n")
    assert await still_works(pool, seen)


async def test_a_job_that_takes_too_much_memory_is_stopped(open_pool: OpenPool) -> None:
    ending = await end(open_pool, act("takes_memory", 200, memory_mb=150))

    assert ending.cause == "memory"
    assert ending.reason.endswith("MB, more than the 150 MB that its queue allows")


@pytest.mark.parametrize("name", ["writes", "writes_and_waits"])
async def test_a_job_that_writes_too_much_is_stopped(open_pool: OpenPool, name: str) -> None:
    ending = await end(open_pool, act(name, 40_000_000, output_mb=10))

    assert ending.cause == "output"
    assert ending.reason.endswith("MB, more than the 10 MB that its queue allows")
    ending.stdout.discard()


async def test_a_process_that_a_job_leaves_is_killed(open_pool: OpenPool) -> None:
    ending = await end(open_pool, act("leaves_a_process"))

    assert ending.status == 1
    assert gone(int(ending.stdout.content))


async def test_a_process_of_a_job_that_is_stopped_is_killed(open_pool: OpenPool) -> None:
    pool, seen = await open_pool(size=1)
    job = act("leaves_a_process", "hang")
    pool.hand_in([job])
    await seen.until(lambda: (job.id, "stdout") in seen.written)
    pool.cancel(job.id)
    await seen.end_of(job)

    assert gone(int(seen.written[job.id, "stdout"]))
    assert await still_works(pool, seen)


async def test_a_copy_of_the_runner_does_not_answer_too(open_pool: OpenPool) -> None:
    assert await end(open_pool, act("leaves_a_copy")) == Finished(1)


async def test_a_full_disk_is_named(open_pool: OpenPool) -> None:
    ending = await end(open_pool, act("finds_the_disk_full"))

    assert ending.status == 2
    assert "File too large" in ending.reason


async def test_a_folder_that_is_gone_is_named(open_pool: OpenPool) -> None:
    pool, seen = await open_pool(size=1)
    job = act("says_nothing")
    folder = pool.folder
    shutil.rmtree(folder)
    pool.hand_in([job])
    ending = await seen.end_of(job)

    assert isinstance(ending, Untouched)
    assert ending.trouble
    assert ending.reason.startswith("no runner could be started: [Errno 2] No such file or directory")
    folder.mkdir()
    assert await still_works(pool, seen)


async def test_parameters_that_cannot_be_sent_fail(open_pool: OpenPool) -> None:
    ending = await end(open_pool, act("says_nothing", 2**70))

    assert ending.status == 2
    assert ending.reason.startswith("its parameters cannot be handed to a runner")


async def test_a_plugin_that_is_not_allowed_fails(open_pool: OpenPool) -> None:
    pool, seen = await open_pool(plugins=Plugins())
    job = act("says_nothing")
    pool.hand_in([job])
    ending = await seen.end_of(job)

    assert ending.status == 2
    assert NoPlugin(ending.reason) == Plugins().find(job.plugin)


async def test_jobs_behind_one_that_kills_its_runner_are_run(open_pool: OpenPool) -> None:
    pool, seen = await open_pool(size=1)
    warm_up = [act("says_nothing") for _ in range(20)]
    pool.hand_in(warm_up)
    await seen.end_of(warm_up[-1])
    jobs = [act("is_killed", "SIGKILL") if number == 5 else act("says_nothing") for number in range(20)]
    pool.hand_in(jobs)
    endings = [type(await seen.end_of(job)) for job in jobs]

    assert endings == [Finished] * 5 + [Crashed] + [Finished] * 14


async def test_jobs_behind_one_that_takes_long_go_elsewhere(open_pool: OpenPool) -> None:
    pool, seen = await open_pool(size=2)
    warm_up = [act("says_nothing") for _ in range(20)]
    pool.hand_in(warm_up)
    await seen.end_of(warm_up[-1])
    jobs = [act("hangs") if number == 5 else act("says_nothing") for number in range(100)]
    pool.hand_in(jobs)
    for job in jobs[:5] + jobs[6:]:
        assert await seen.end_of(job) == Finished(1)

    assert (pool.running, pool.waiting) == (1, 0)


async def test_a_job_handed_out_ahead_is_cancelled_and_nobody_else(open_pool: OpenPool) -> None:
    pool, seen = await open_pool(size=1)
    warm_up = [act("says_nothing") for _ in range(20)]
    pool.hand_in(warm_up)
    await seen.end_of(warm_up[-1])
    jobs = [act("hangs"), *(act("says_nothing") for _ in range(9))]
    pool.hand_in(jobs)
    await seen.until(lambda: ("started", jobs[0].id) in seen.told)
    pool.cancel(jobs[4].id)
    await seen.end_of(jobs[4])
    pool.cancel(jobs[0].id)

    assert [type(await seen.end_of(job)) for job in jobs] == [
        Stopped,
        *[Finished] * 3,
        Stopped,
        *[Finished] * 5,
    ]


async def test_the_death_of_the_starter_costs_what_runs_and_no_more(open_pool: OpenPool) -> None:
    pool, seen = await open_pool(size=1)
    job, after = act("says_and_waits"), act("says_nothing")
    pool.hand_in([job, after])
    await seen.until(lambda: (job.id, "stdout") in seen.written)
    assert pool.starting.pid is not None
    os.kill(pool.starting.pid, signal.SIGKILL)

    assert isinstance(await seen.end_of(job), Crashed)
    assert await seen.end_of(after) == Finished(1)
