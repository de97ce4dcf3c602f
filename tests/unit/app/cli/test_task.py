"""Tasks on the command line."""

import asyncio
import io
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tidemill.app.cli import task
from tidemill.store import Claim, Store, eq
from tidemill.tasks.queue import Queue, create_queue
from tidemill.tasks.registry import Registry
from tidemill.tasks.task import TASKS, Finished, Task
from unit.app.cli.commands import Run, audit_entries, stored

N = '{"n": 1}'


@pytest.fixture(autouse=True)
def demo(run: Run) -> None:
    """A queue `demo`, and one of functions."""
    assert run("queue", "create", "demo", "--plugin", "words").code == 0
    stored(lambda store: create_queue(store, Queue(name="calls", kind="function")))


@contextmanager
def node(total: int, end: Callable[[Task], Finished]) -> Iterator[None]:
    """A node in a thread, that ends so many tasks at once, each as it is told."""
    thread = threading.Thread(target=lambda: stored(lambda store: work(store, total, end)))
    thread.start()
    yield
    thread.join()


async def work(store: Store, total: int, end: Callable[[Task], Finished]) -> None:
    registry = Registry(store)
    claim = Claim((eq("status", -2),), "token-1", 60_000, 100, set=(("status", -1), ("node", "vm-1")))
    async with store.watch(TASKS, poll_s=0.5) as watch:
        while total:
            for document in await store.claim(TASKS, claim):
                _, task, _ = await registry.get(document.key)
                await registry.change(document.key, end(task))
                total -= 1
            await watch.wait()


def test_a_task_is_made_shown_and_listed(run: Run) -> None:
    made = run("task", "submit", "demo", "--params", N, "--key", "nightly", "--priority", "5")
    shown = json.loads(run("task", "show", "nightly", "--json").out)
    listed = run("task", "list", "--queue", "demo", "--status", "queued").out.splitlines()

    assert (made.code, made.out.strip()) == (0, shown["id"])
    assert (shown["params"], shown["priority"], shown["state"]) == ({"n": 1}, 5, "queued")
    assert listed[0].split("\t")[:3] == ["id", "queue", "state"]
    assert listed[1].split("\t")[:3] == [shown["id"], "demo", "queued"]
    assert json.loads(run("task", "list", "--status", "failed", "--json").out) == []
    assert "params\t" in run("task", "show", "nightly").out
    assert (audit_entries()[0]["action"], audit_entries()[0]["detail"]) == ("task submit", "1 tasks")


def test_params_come_from_a_file_or_standard_input(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "params.json").write_text('[{"n": 1}, {"n": 2}]')
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"n": 3}')))
    run("task", "submit", "demo", "--params-file", "params.json")
    run("task", "submit", "demo", "--params-file", "-", "--count", "2")

    found = json.loads(run("task", "list", "--sort", "turn", "--json").out)
    assert [task["params"]["n"] for task in found] == [1, 2, 3, 3]


def test_lists_go_on_where_the_last_ended(run: Run) -> None:
    ids = run("task", "submit", "demo", "--count", "5").out.split()
    first = run("task", "list", "--limit", "3", "--json")
    cursor = first.err.split("--cursor ")[1].strip()
    second = run("task", "list", "--limit", "3", "--cursor", cursor, "--json")

    seen = [task["id"] for page in (first, second) for task in json.loads(page.out)]
    assert seen == list(reversed(ids))


def test_whoever_waits_is_told_how_all_ended(run: Run) -> None:
    with node(3, lambda task: Finished(1, task.params)):
        good = run("task", "submit", "demo", "--params", N, "--count", "3", "--wait", "--json")
    with node(1, lambda _: Finished(2, reason="it fell")):
        bad = run("task", "submit", "demo", "--wait")

    assert (good.code, [task["result"] for task in json.loads(good.out)]) == (0, [{"n": 1}] * 3)
    assert (bad.code, bad.out.splitlines()[1].split("\t")[1:]) == (1, ["failed", "vm-1", "1", "it fell"])
    assert good.err == ""


def test_what_a_task_printed_comes_on_the_same_streams(run: Run) -> None:
    with node(1, lambda _: Finished(1, None, "out\n", "err\n")):
        task = run("task", "submit", "demo", "--wait", "--json")
    key = json.loads(task.out)[0]["id"]
    both, follow = run("task", "logs", key), run("task", "logs", "-f", key, "--stream", "stderr")

    assert (both.out, both.err) == ("out\n", "err\n")
    assert (follow.out, follow.err) == ("", "err\n")


def test_tasks_are_cancelled_and_tried_again_by_name_or_all_that_match(run: Run) -> None:
    first, second, _ = run("task", "submit", "demo", "--count", "3").out.split()
    by_name = run("task", "cancel", first, second)
    twice = run("task", "cancel", first)
    again = run("task", "retry", first)
    every = run("task", "cancel", "--all", "--queue", "demo", "--status", "queued")
    all_again = run("task", "retry", "--all")

    assert (by_name.code, by_name.err.count("is cancelled")) == (0, 2)
    assert (twice.code, "[task.illegal_move]" in twice.err) == (4, True)
    assert f"task {first} is queued" in again.err
    assert "2 tasks changed, 0 could not be" in every.err
    assert "3 tasks changed, 0 could not be" in all_again.err


def test_whoever_is_interrupted_while_waiting_is_told_what_goes_on(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()

    monkeypatch.setattr(task, "wait_ended", interrupted)
    plain = run("task", "submit", "demo", "--wait")
    as_json = run("task", "submit", "demo", "--count", "2", "--wait", "--json")
    listed = json.loads(run("task", "list", "--sort", "turn", "--json").out)

    assert (plain.code, plain.out.split()) == (130, [listed[0]["id"]])
    assert (as_json.code, [one["id"] for one in json.loads(as_json.out)]) == (
        130,
        [one["id"] for one in listed[1:]],
    )
    assert "go on" in plain.err


def test_tasks_are_parked_and_queued_again(run: Run) -> None:
    [key] = run("task", "submit", "demo").out.split()
    parked = run("task", "park", key, "--status", "-7", "--json")
    again = run("task", "retry", key)

    assert [(one["id"], one["status"]) for one in json.loads(parked.out)] == [(key, -7)]
    assert f"task {key} is parked -7" in parked.err
    assert f"task {key} is queued" in again.err


def test_tasks_are_deleted_by_name(run: Run) -> None:
    first, second = run("task", "submit", "demo", "--count", "2").out.split()
    one = run("task", "delete", first)
    other = run("task", "delete", second, "--json")

    assert (one.code, one.err) == (0, f"task {first} is deleted\n")
    assert json.loads(other.out) == {"deleted": [second]}
    assert json.loads(run("task", "list", "--json").out) == []
    assert (audit_entries()[0]["action"], audit_entries()[0]["target"]) == ("task delete", second)


@pytest.mark.parametrize("filters", [["--status", "cancelled", "--status", "queued"], ["--all"]])
def test_all_that_match_are_deleted_once_somebody_is_sure(
    run: Run, monkeypatch: pytest.MonkeyPatch, filters: list[str]
) -> None:
    cancelled, _ = run("task", "submit", "demo", "--count", "2").out.split()
    run("task", "cancel", cancelled)
    asked = ["task", "delete", "--queue", "demo", *filters]
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    unsure = run(*asked)
    left = len(json.loads(run("task", "list", "--json").out))
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    sure = run(*asked)

    assert (unsure.code, left, "2 tasks match" in unsure.err) == (1, 2, True)
    assert (sure.code, "1 tasks changed, 1 could not be" in sure.err) == (0, True)
    assert [one["state"] for one in json.loads(run("task", "list", "--json").out)] == ["queued"]


def test_a_program_deletes_without_being_asked(run: Run) -> None:
    [key] = run("task", "submit", "demo").out.split()
    cancelled = run("task", "cancel", "--all", "--json")
    deleted = run("task", "delete", "--batch", "7", "--all", "--yes", "--json")
    rest = run("task", "delete", "--queue", "demo", "--yes", "--json")

    assert json.loads(cancelled.out) == {"changed": 1, "refused": 0}
    assert json.loads(deleted.out) == {"changed": 0, "refused": 0}
    assert (json.loads(rest.out), rest.err) == ({"changed": 1, "refused": 0}, "")
    assert run("task", "show", key).code == 3
    assert audit_entries()[0]["detail"] == "queue=['demo']"


def test_params_that_are_no_text_are_told(run: Run, folder: Path) -> None:
    (folder / "params.json").write_bytes(b'{"n": "\xe4"}')
    from_file = run("task", "submit", "demo", "--params-file", "params.json")
    from_argument = run("task", "submit", "demo", "--params", '{"n": "\udce4"}')

    for result in (from_file, from_argument):
        assert (result.code, "no JSON: byte 7 (0xe4) is no UTF-8" in result.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["submit", "nosuch"], 3, "[queue.not_found]"),
        (["submit", "demo", "--params", "{"], 2, "no JSON"),
        (["submit", "demo", "--params", "[1]"], 2, "JSON object"),
        (["submit", "demo", "--params", N, "--params-file", "-"], 2, "either --params or --params-file"),
        (["submit", "demo", "--params-file", "absent"], 3, "no file absent"),
        (["submit", "demo", "--key", "k", "--count", "2"], 2, "names one task"),
        (["submit", "demo", "--key", "taken"], 4, "[task.conflict]"),
        (["submit", "demo", "--not-before", "soon"], 2, "not_before"),
        (["submit", "calls"], 2, "tidemill.Executor"),
        (["show", "nosuch"], 3, "[task.not_found]"),
        (["logs", "nosuch"], 3, "[task.not_found]"),
        (["cancel"], 2, "say --all"),
        (["cancel", "taken", "--all"], 2, "say --all"),
        (["cancel", "taken", "--queue", "demo"], 2, "say --all"),
        (["retry", "--queue", "demo"], 2, "say --all"),
        (["delete"], 2, "say --all"),
        (["delete", "--queue", "", "--yes"], 2, "say --all"),
        (["delete", "taken", "--queue", "demo"], 2, "say --all"),
        (["delete", "nosuch"], 3, "[task.not_found]"),
        (["park", "taken", "--status", "-2"], 2, "less than -6"),
        (["park", "taken"], 2, "--status"),
        (["lits"], 2, "Did you mean 'list'"),
        (["list", "--status", "done"], 2, "'done'"),
        (["list", "--sort", "params"], 2, "turn or -turn"),
    ],
)
def test_a_mistake_is_told_with_its_exit_code(
    run: Run, arguments: list[str], code: int, message: str
) -> None:
    run("task", "submit", "demo", "--key", "taken")

    result = run("task", *arguments)

    assert (result.code, result.out) == (code, "")
    assert message in result.err
    assert "Traceback" not in result.err
