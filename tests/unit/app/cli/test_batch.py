"""Batches and the contents of jobs on the command line."""

import json
import os
import zipfile
from pathlib import Path

import pytest

from tidemill.store import Store
from tidemill.tasks.blobs import Shelves, announce_blobs, inline_value
from tidemill.tasks.claim import Seat, claim_of
from tidemill.tasks.policy import Policy
from tidemill.tasks.queue import Queue, create_queue, get_queue
from tidemill.tasks.status import FAILED, SUCCEEDED
from tidemill.tasks.task import TASKS, Finished, body_of, move, task_of
from unit.app.cli.commands import Run, stored

LARGE = os.urandom(200_000)


@pytest.fixture(autouse=True)
def jobs(run: Run, folder: Path) -> None:
    """A remote queue `jobs` with batches of two, and a file `payload`."""
    assert run("queue", "create", "demo", "--plugin", "words").code == 0
    stored(lambda store: create_queue(store, Queue(name="jobs", kind="remote", batch_size=2)))
    stored(lambda store: announce_blobs(store, f"file://{folder}/blobs"))
    (folder / "payload").write_bytes(LARGE)


def end(status: int = SUCCEEDED, content: bytes = b"done") -> None:
    """End the first job that waits."""

    async def ending(store: Store) -> None:
        queue = await get_queue(store, "jobs")
        [held] = await store.claim(TASKS, claim_of(queue, Seat("vm-1", "token-1", 60_000), 1, None))
        result = inline_value(content) if status == SUCCEEDED else None
        after = move(task_of(held), Finished(status, result), Policy(), await store.now())
        await store.replace(TASKS, held.key, body_of(after), expect=held.revision, release=True)

    stored(ending)


def submit(run: Run, *more: str) -> str:
    made = run("task", "submit", "jobs", "--payload", "payload", *more)
    assert made.code == 0
    return made.out.strip()


def test_a_file_becomes_the_payload_of_a_job(run: Run) -> None:
    key = submit(run, "--priority", "immediate", "--key", "cats")
    shown = json.loads(run("task", "show", key, "--json").out)

    async def payload(store: Store) -> bytes:
        found = await store.get(TASKS, key)
        assert found is not None
        return await Shelves(store).read(found.body["payload"])

    assert (shown["priority"], shown["batch"], shown["payload"]["size"]) == (1000, 1, len(LARGE))
    assert stored(payload) == LARGE


def test_only_remote_queues_take_a_file(run: Run) -> None:
    refused = run("task", "submit", "demo", "--payload", "payload")

    assert (refused.code, "only remote ones" in refused.err) == (2, True)
    assert run("task", "submit", "jobs", "--payload", "nothing").code == 2
    assert run("task", "submit", "jobs", "--priority", "soon").code == 2


def test_a_job_without_anything_in_it_is_refused(run: Run) -> None:
    refused = run("task", "submit", "jobs")

    assert (refused.code, refused.out, "--payload" in refused.err) == (2, "", True)
    assert run("task", "submit", "jobs", "--params", "{}").code == 0


def test_batches_are_listed_and_shown(run: Run) -> None:
    for _ in range(3):
        submit(run)
    end()
    listed = json.loads(run("batch", "list", "jobs", "--json").out)
    shown = run("batch", "show", "jobs", "1").out

    assert [(batch["number"], batch["tasks"], batch["percent"]) for batch in listed] == [
        (2, 1, 0.0),
        (1, 2, 50.0),
    ]
    assert "percent\t50.0" in shown
    assert run("batch", "show", "jobs", "3").code == 3
    assert run("batch", "list", "nothing").code == 3


def test_waiting_ends_with_the_batch_or_the_time(run: Run) -> None:
    submit(run)
    early = run("batch", "wait", "jobs", "1", "--timeout", "0", "--json")
    end()
    done = run("batch", "wait", "jobs", "1", "--json")
    submit(run)
    end(FAILED)
    failed = run("batch", "wait", "jobs", "1", "--json")

    assert [(ended.code, json.loads(ended.out)["done"]) for ended in (early, done, failed)] == [
        (1, False),
        (0, True),
        (1, True),
    ]


def test_results_of_a_batch_are_saved_as_one_file(run: Run, folder: Path) -> None:
    submit(run, "--key", "a")
    early = run("batch", "results", "jobs", "1", "-o", "out.zip")
    end(content=b"A")
    saved = run("batch", "results", "jobs", "1", "-o", "out.zip")

    assert (early.code, saved.code) == (4, 0)
    with zipfile.ZipFile(folder / "out.zip") as file:
        assert file.read("a") == b"A"
    assert list(folder.glob(".*.part")) == []


@pytest.mark.parametrize("command", [("batch", "results", "jobs", "1"), ("task", "result", "a")])
def test_a_folder_that_is_not_there_is_told_as_it_was_named(run: Run, command: tuple[str, ...]) -> None:
    submit(run, "--key", "a")
    end()

    refused = run(*command, "-o", "nosuch/out.zip")

    assert (refused.code, refused.err) == (3, "error: there is no folder nosuch [not_found]\n")


def test_a_result_is_saved(run: Run, folder: Path) -> None:
    key = submit(run)
    early = run("task", "result", key, "-o", "out")
    end(content=b"\x00\xff")
    saved = run("task", "result", key, "-o", "out")

    assert (early.code, saved.code) == (4, 0)
    assert (folder / "out").read_bytes() == b"\x00\xff"
