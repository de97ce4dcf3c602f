"""Programs in any language: given the task as JSON, answering in a file."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidemill.tasks.runner import Crashed, Finished, Plugins, Stopped
from tidemill.tasks.runner.folder import LOCK
from tidemill.tasks.runner.program import Program, read_some
from unit.tasks.runner.listening import EXAMPLE, OpenPool, program
from unit.tasks.runner.test_bad_jobs import gone

RESPOND = 'cat > "$TIDEMILL_RESPONSE"'


def shell(script: str) -> Plugins:
    return Plugins(programs={"script": ["/bin/sh", "-c", script]})


async def end(open_pool: OpenPool, plugins: Plugins, params: Any = None, **limits: Any) -> Any:
    """What becomes of a job of the program, in a pool that goes on afterwards."""
    pool, seen = await open_pool(size=1, plugins=plugins)
    jobs = [program("script", params, **limits) for _ in range(2)]
    pool.hand_in(jobs)
    endings = [await seen.end_of(job) for job in jobs]
    assert type(endings[0]) is type(endings[1])
    assert pool.running == 0
    return endings[0]


@pytest.mark.skipif(shutil.which("perl") is None, reason="perl is not installed")
async def test_the_example_in_perl_counts_words(open_pool: OpenPool) -> None:
    pool, seen = await open_pool(plugins=Plugins(programs={"words": ["perl", str(EXAMPLE)]}))
    job, bad = program("words", {"text": "one two\nthree"}), program("words", {})
    pool.hand_in([job, bad])
    ending = await seen.end_of(job)

    assert (ending.status, ending.exit_code, ending.stdout.content) == (1, 0, b"2\n1\n")
    assert msgspec.json.decode(ending.result) == {"words": 3}
    assert seen.progress[-1] == (100.0, "line 2")
    refused = await seen.end_of(bad)
    assert (refused.status, refused.stderr.content) == (2, b"params.text is missing\n")


async def test_a_program_finds_its_task_in_three_places(open_pool: OpenPool) -> None:
    script = 'cat; echo; cat "$TIDEMILL_TASK"; echo; echo $TIDEMILL_TASK_ID $TIDEMILL_ATTEMPT $TIDEMILL_FENCE'
    pool, seen = await open_pool(plugins=shell(script))
    job = program("script", {"a": 1})
    pool.hand_in([job])
    by_input, by_file, by_environment = (await seen.end_of(job)).stdout.content.decode().splitlines()

    task = {"id": job.id, "attempt": 1, "fence": job.fence, "queue": "demo", "plugin": "script"}
    assert msgspec.json.decode(by_input) == {**task, "params": {"a": 1}}
    assert by_file == by_input
    assert by_environment == f"{job.id} 1 {job.fence}"


@pytest.mark.parametrize(
    ("script", "status", "code", "reason"),
    [
        ("exit 0", 1, 0, None),
        ("exit 5", 2, 5, "the program exited with code 5 and answered nothing"),
        (f"echo '{{\"status\": 9}}' | {RESPOND}; exit 5", 9, 5, None),
        (
            f"echo '{{\"status\": 1}}' | {RESPOND}; exit 5",
            2,
            5,
            "the program answered status 1 but exited with code 5",
        ),
        (
            f"echo '{{\"status\": 0}}' | {RESPOND}",
            2,
            0,
            "the plugin answered status 0, which is not positive or too large",
        ),
        (
            f"echo 'done' | {RESPOND}",
            2,
            0,
            "the program's response is no JSON: JSON is malformed: invalid character (byte 0)",
        ),
    ],
)
async def test_exit_code_and_response_make_the_status(
    open_pool: OpenPool, script: str, status: int, code: int, reason: str | None
) -> None:
    ending = await end(open_pool, shell(script))

    assert (ending.status, ending.exit_code, ending.reason) == (status, code, reason)
    assert (reason or "") in ending.stderr.content.decode()


async def test_what_is_answered_follows_what_was_printed(open_pool: OpenPool) -> None:
    response = '{"status": 1, "stdout": "b", "stderr": "d"}'
    ending = await end(open_pool, shell(f"printf a; printf c >&2; echo '{response}' | {RESPOND}"))

    assert (ending.stdout.content, ending.stderr.content) == (b"ab", b"cd")


async def test_a_response_that_is_too_large_is_refused(open_pool: OpenPool) -> None:
    ending = await end(open_pool, shell(f"head -c 3000000 /dev/zero | {RESPOND}"), output_mb=1)

    assert (ending.status, ending.reason) == (
        2,
        "the program's response has 3 MB, more than its queue allows",
    )


async def test_a_program_that_is_killed_has_crashed(open_pool: OpenPool) -> None:
    ending = await end(open_pool, shell("echo before; kill -SEGV $$"))

    assert isinstance(ending, Crashed)
    assert (ending.reason, ending.stdout.content) == ("the program died of SIGSEGV", b"before\n")


@pytest.mark.parametrize("command", ["/no/such/program", "/etc/passwd", "/"])
async def test_a_program_that_cannot_be_started_fails(open_pool: OpenPool, command: str) -> None:
    ending = await end(open_pool, Plugins(programs={"script": command}))

    assert isinstance(ending, Finished)
    assert ending.status == 2
    assert ending.reason is not None
    assert ending.reason.startswith("the program cannot be started: ")
    assert command in ending.reason


async def test_a_program_that_hangs_is_stopped(open_pool: OpenPool) -> None:
    ending = await end(open_pool, shell("sleep 1000"), timeout_s=0.1)

    assert ending == Stopped("ran longer than 0.1 s", "timeout")


async def test_a_program_is_stopped_with_all_that_it_started(open_pool: OpenPool) -> None:
    pool, seen = await open_pool(size=1, plugins=shell("setsid sleep 1000 & echo $!; wait"))
    job = program("script")
    pool.hand_in([job])
    await seen.until(lambda: (job.id, "stdout") in seen.written)
    pool.cancel(job.id)

    assert (await seen.end_of(job)).reason == "cancelled"
    assert gone(int(seen.written[job.id, "stdout"]))


async def test_a_program_that_ignores_the_signal_is_killed(open_pool: OpenPool) -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 1000; done"
    pool, seen = await open_pool(size=1, plugins=shell(script))
    job = program("script", grace_s=0.2)
    pool.hand_in([job])
    await seen.until(lambda: (job.id, "stdout") in seen.written)
    pool.cancel(job.id)

    assert (await seen.end_of(job)).reason == "cancelled"


async def test_what_a_program_leaves_behind_is_killed(open_pool: OpenPool) -> None:
    ending = await end(open_pool, shell("setsid sleep 1000 > /dev/null 2>&1 & echo $!"))

    assert ending.status == 1
    assert gone(int(ending.stdout.content))


async def test_a_program_that_writes_too_much_is_stopped(open_pool: OpenPool) -> None:
    ending = await end(open_pool, shell("cat /dev/zero"), output_mb=1)

    assert ending.cause == "output"
    ending.stdout.discard()


async def test_an_outer_runner_is_told_the_name_of_the_plugin(open_pool: OpenPool, tmp_path: Path) -> None:
    runner = tmp_path / "task_runner"
    runner.write_text('#!/bin/sh\necho "$1"\n')
    runner.chmod(0o700)
    name = "Disbatch::Plugin::Demo"
    pool, seen = await open_pool(plugins=Plugins([name], task_runner=str(runner)))
    job = program(name)
    pool.hand_in([job])

    assert (await seen.end_of(job)).stdout.content == name.encode() + b"\n"


async def test_no_file_of_a_program_is_left(open_pool: OpenPool) -> None:
    pool, seen = await open_pool(plugins=shell("echo hello"))
    job = program("script")
    pool.hand_in([job])
    await seen.end_of(job)
    left = [path.name for path in pool.folder.iterdir()]
    await pool.stop(0)

    assert left == [LOCK]

    assert not pool.folder.exists()


DEEP = "[" * 5000 + "]" * 5000


async def test_a_response_that_is_nested_too_deep_is_a_failure(open_pool: OpenPool) -> None:
    answer = f'echo \'{{"status": 1, "result": {DEEP}}}\' > "$TIDEMILL_RESPONSE"'
    ending = await end(open_pool, shell(answer))

    assert isinstance(ending, Finished)
    assert ending.status == 2
    assert ending.reason is not None


def test_progress_without_end_is_read_a_part_at_a_time() -> None:
    with Path("/dev/zero").open("rb") as endless:
        assert read_some(endless.fileno())


async def test_progress_that_is_nested_too_deep_is_passed_over(open_pool: OpenPool) -> None:
    told = f'echo \'{{"x": {DEEP}, "percent": 5}}\' >&$TIDEMILL_PROGRESS'
    ending = await end(open_pool, shell(told))

    assert isinstance(ending, Finished)
    assert ending.status == 1


async def test_a_job_ends_even_when_its_end_makes_no_sense(
    open_pool: OpenPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("nobody thought of this")

    monkeypatch.setattr(Program, "_verdict", broken)
    ending = await end(open_pool, shell("true"))

    assert isinstance(ending, Crashed)
    assert "nobody thought of this" in ending.reason
