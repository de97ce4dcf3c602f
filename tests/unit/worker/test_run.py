"""Programs that are run for jobs: real ones."""

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from tidemill.worker import Job, JobFailed, program
from tidemill.worker.errors import BadProgram
from tidemill.worker.parcel import Parcel
from tidemill.worker.wire import TaskGiven
from unit.worker.nodes import ends


class Played:
    """A job with a payload, and what it reports."""

    def __init__(self, folder: Path, payload: bytes = b"text") -> None:
        parcel = Parcel(folder)
        parcel.write(payload)
        self.reports: asyncio.Queue[tuple[float | None, str | None]] = asyncio.Queue()
        given = TaskGiven("task-1", 7, 2, "shout")
        self.job = Job(given, parcel, lambda percent, info: self.reports.put_nowait((percent, info)))

    async def run(self, command: str, **options: Any) -> bytes:
        handler = cast("Callable[[Job], Awaitable[Path]]", program(command, **options))
        return read(await handler(self.job))


def read(path: Path) -> bytes:
    return path.read_bytes()


@pytest.fixture
def played(tmp_path: Path) -> Played:
    return Played(tmp_path)


def sh(script: str, *words: str) -> str:
    return " ".join(["sh", "-c", f"'{script}'", "sh", *words])


@pytest.mark.parametrize(
    "command",
    [
        sh("tr a-z A-Z"),
        sh("tr a-z A-Z <$1 >$2", "{payload}", "{result}"),
        sh("tr a-z A-Z <$1", "{payload}"),
        sh("tr a-z A-Z >$1", "{result}"),
        sh("tr a-z A-Z <${1#in=} >${2#out=}", "in={payload}", "out={result}"),
    ],
)
async def test_a_program_reads_its_payload_and_writes_its_result(played: Played, command: str) -> None:
    assert await played.run(command) == b"TEXT"


async def test_a_large_payload_goes_through_files(tmp_path: Path) -> None:
    payload = os.urandom(1 << 20)

    assert await Played(tmp_path, payload).run("cat") == payload


async def test_a_program_knows_its_task_and_not_the_workers_token(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMILL_TOKEN", "secret")
    names = ("TASK", "FENCE", "ATTEMPT", "QUEUE", "TOKEN")
    wanted = " ".join(f"$TIDEMILL_{name}" for name in names)

    assert (await played.run(sh(f"echo {wanted}; pwd"))).decode().split() == [
        *("task-1", "7", "2", "shout"),
        str(played.job.folder),
    ]


async def test_no_shell_sees_the_command(played: Played) -> None:
    assert await played.run("echo '$HOME; *'") == b"$HOME; *\n"


async def test_a_program_is_found_from_where_the_worker_was_started(
    played: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "answer.sh"
    script.write_text("#!/bin/sh\necho 42\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.chdir(tmp_path)

    assert await played.run("./answer.sh") == b"42\n"


@pytest.mark.parametrize(
    ("line", "report"),
    [
        ("progress: 40", (40.0, None)),
        ("progress: 12.5% words of progress", (12.5, "words of progress")),
        ("progress: 3 of 7", (3.0, "of 7")),
        ("progress: 3of7", (None, "3of7")),
        ("progress:words", (None, "words")),
    ],
)
async def test_lines_of_progress_are_reports(
    played: Played, line: str, report: tuple[float | None, str | None]
) -> None:
    assert await played.run(sh(f'echo "{line}" >&2; cat')) == b"text"
    assert played.reports.get_nowait() == report


async def test_progress_is_reported_while_the_program_runs(played: Played) -> None:
    path = played.job.folder / "go"
    os.mkfifo(path)
    running = asyncio.create_task(played.run(sh("echo progress: 40 >&2; cat go")))
    assert await asyncio.wait_for(played.reports.get(), 30) == (40.0, None)

    await asyncio.to_thread(path.write_bytes, b"done")
    assert await running == b"done"


async def test_what_looks_like_progress_and_is_none_is_a_log(played: Played) -> None:
    with pytest.raises(JobFailed) as failed:
        await played.run(sh('echo "progress: 40" >&2; echo progress: >&2; echo progress: 101 >&2; exit 1'))

    assert failed.value.logs == "progress:\nprogress: 101\n"
    assert played.reports.qsize() == 1


async def test_a_program_that_fails_leaves_its_exit_code_and_the_end_of_its_logs(played: Played) -> None:
    with pytest.raises(JobFailed) as failed:
        await played.run(sh("seq 100000 >&2; printf last >&2; exit 3"))

    assert failed.value.info == "exit code 3"
    assert failed.value.logs is not None
    assert failed.value.logs.endswith("99999\n100000\nlast")
    assert len(failed.value.logs) == 64 * 1024


async def test_what_a_program_with_a_result_file_prints_is_logs(played: Played) -> None:
    with pytest.raises(JobFailed) as failed:
        await played.run(sh("echo out; echo err >&2; exit 1", "{result}"))

    assert failed.value.logs == "out\nerr\n"


async def test_a_killed_program_leaves_the_signal(played: Played) -> None:
    with pytest.raises(JobFailed, match="killed by SIGKILL"):
        await played.run(sh("kill -9 $$"))


async def test_a_program_that_writes_no_result_has_failed(played: Played) -> None:
    with pytest.raises(JobFailed, match="wrote no result"):
        await played.run(sh("exit 0", "{result}"))


async def test_a_program_that_takes_too_long_is_ended(played: Played) -> None:
    with pytest.raises(JobFailed, match=r"took longer than 0\.2 s") as failed:
        await played.run(sh("echo begun >&2; sleep 1000"), timeout_s=0.2)

    assert failed.value.logs == "begun\n"


async def cancelled(played: Played, script: str, grace_s: float) -> list[int]:
    """Cancel a program once it has told the processes that it is made of; those."""
    running = asyncio.create_task(played.run(sh(script), grace_s=grace_s))
    _, told = await asyncio.wait_for(played.reports.get(), 30)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    return [int(word) for word in (told or "").split()[1:]]


async def test_a_cancelled_program_is_asked_to_end_with_all_that_it_started(played: Played) -> None:
    script = 'trap "echo asked >asked; exit" TERM; sleep 1000 & echo "progress: pids $$ $!" >&2; wait'
    pids = await cancelled(played, script, grace_s=30)

    assert len(pids) == 2
    assert all(map(ends, pids))
    assert read(played.job.folder / "asked") == b"asked\n"


async def test_a_cancelled_program_that_does_not_listen_is_killed(played: Played) -> None:
    script = 'trap "" TERM; sleep 1000 & echo "progress: pids $$ $!" >&2; while :; do wait; done'
    pids = await cancelled(played, script, grace_s=0.1)

    assert len(pids) == 2
    assert all(map(ends, pids))


async def test_what_a_program_leaves_behind_is_not_waited_for_and_killed(played: Played) -> None:
    done = await played.run(sh("sleep 1000 & echo $!"))

    assert ends(int(done))


@pytest.mark.parametrize("command", ["", "no-such-program-anywhere", "cat 'open", "./nothing here"])
def test_a_command_that_names_no_program_is_refused(command: str) -> None:
    with pytest.raises(BadProgram):
        program(command)
