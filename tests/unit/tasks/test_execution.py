"""An execution node on every store, with runners that do at once what a test tells them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Container, Sequence
from contextlib import asynccontextmanager

import pytest

from tidemill.cluster import Timing
from tidemill.store import Claim, Store, eq
from tidemill.tasks.blobs import Shelves
from tidemill.tasks.claim import Choice, Seat
from tidemill.tasks.execution import Execution, Place
from tidemill.tasks.keeping import Keeping
from tidemill.tasks.limits import change_limits
from tidemill.tasks.order import Order
from tidemill.tasks.policy import Policy
from tidemill.tasks.queue import Queue, create_queue, update_queue
from tidemill.tasks.registry import Registry
from tidemill.tasks.runner.job import Crashed, Ending, Finished, Job, Output, Stopped, Untouched
from tidemill.tasks.status import CANCELLED, CLAIMED, FAILED, QUEUED, RUNNING, SUCCEEDED, is_ended
from tidemill.tasks.task import TASKS, GivenBack, Task, body_of, move, task_of

LONG = Timing(600.0)
ALL = Choice()


class Bench:
    """Runners in whose place a test decides: `answer` says how a job ends, None that it goes on."""

    def __init__(self, answer: Callable[[Job], Ending | None]) -> None:
        self.answer = answer
        self.jobs: list[Job] = []
        self.running: dict[str, Job] = {}
        self.most = 0
        self.overlaps = 0
        self.ended = asyncio.Event()
        self.slots = 10**6
        self.begun: set[str] = set()
        self.waiting: list[Job] = []
        self.listener: Execution

    def of(self, listener: Execution) -> "Bench":
        self.listener = listener
        return self

    async def start(self) -> None:
        pass

    async def stop(self, grace_s: float) -> None:
        for job in list(self.running.values()):
            self.end(job, Stopped("the pool stopped", "shutdown"))

    def hand_in(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self.jobs.append(job)
            self.overlaps += job.id in self.running
            self.running[job.id] = job
            self.most = max(self.most, len(self.running))
            asyncio.get_running_loop().call_soon(self._run, job)

    def cancel(self, key: str) -> None:
        if key in self.running:
            self.end(self.running[key], Stopped("cancelled", "cancel"))

    def withdraw(self, keys: Container[str]) -> None:
        for job in [job for job in self.waiting if job.id in keys]:
            self.waiting.remove(job)
            self.end(job, Untouched("it would have had to wait"))

    def _run(self, job: Job) -> None:
        if len(self.begun) >= self.slots:
            self.waiting.append(job)
            return
        self.begun.add(job.id)
        self.listener.started(job)
        ending = self.answer(job)
        if ending is not None:
            self.end(job, ending)

    def end(self, job: Job, ending: Ending) -> None:
        self.begun.discard(job.id)
        if self.running.pop(job.id, None) is not None:
            self.listener.ended(job, ending)
            self.ended.set()


@asynccontextmanager
async def executing(
    store: Store, bench: Bench, *, node: str = "vm-1", slots: int = 4, choice: Choice = ALL
) -> AsyncIterator[Execution]:
    place = Place(Seat(node, f"token-{node}", LONG.ttl_ms), slots, choice)
    execution = Execution(
        store,
        place,
        bench.of,
        Keeping(Shelves(store), {}),
        knows=lambda plugin: plugin == "known",
        timing=LONG,
    )
    async with execution:
        yield execution


async def ended(registry: Registry, *ids: str) -> list[Task]:
    """The tasks, once they have all ended."""
    async with registry.store.watch(TASKS, poll_s=0.5) as watch:
        while True:
            found = await registry.store.get_many(TASKS, ids)
            tasks = [task_of(found[one]) for one in ids]
            if all(is_ended(task.status) for task in tasks):
                return tasks
            await watch.wait()


async def until(registry: Registry, key: str, holds: Callable[[Task], bool]) -> Task:
    async with registry.store.watch(TASKS, poll_s=0.05) as watch:
        while not holds(task := (await registry.get(key))[1]):
            await watch.wait()
        return task


def at_once(job: Job) -> Ending:
    return Finished(SUCCEEDED, stdout=Output(3, b"hi\n"))


async def test_tasks_are_run_and_what_came_of_them_is_written(registry: Registry) -> None:
    bench = Bench(at_once)
    async with executing(registry.store, bench):
        made = await registry.submit_all([Order(queue="work", params={"n": n}) for n in range(50)])
        tasks = await ended(registry, *(key for key, _ in made))

    assert {(task.status, task.attempt, task.node, task.stdout) for task in tasks} == {(1, 1, "vm-1", "hi\n")}
    assert sorted(job.params["n"] for job in bench.jobs) == list(range(50))


async def test_a_task_that_goes_on_is_written_down_as_running(registry: Registry) -> None:
    bench = Bench(lambda _: None)
    async with executing(registry.store, bench) as execution:
        key, _ = await registry.submit(Order(queue="work"))
        running = await until(registry, key, lambda task: task.status == RUNNING)
        bench.listener.progressed(bench.running[key], 40.0, "reading")
        told = await until(registry, key, lambda task: task.progress is not None)
        bench.end(bench.running[key], at_once(bench.jobs[0]))
        [done] = await ended(registry, key)

    assert running.begun is not None
    assert told.progress is not None
    assert (told.progress.percent, told.progress.info) == (40.0, "reading")
    assert done.status == SUCCEEDED
    assert execution.held == {}


async def test_a_failed_task_is_tried_again_and_the_reason_stays(registry: Registry) -> None:
    await update_queue(registry.store, "work", {"policy": {"attempts": 2, "backoff_s": 0}})
    bench = Bench(lambda _: Finished(FAILED, reason="it did not work", stderr=Output(2, b"no")))
    async with executing(registry.store, bench):
        key, _ = await registry.submit(Order(queue="work"))
        [task] = await ended(registry, key)

    assert (task.status, task.attempt, task.reason, task.stderr) == (FAILED, 2, "it did not work", "no")


async def test_a_crash_is_told_as_one(registry: Registry) -> None:
    await update_queue(registry.store, "work", {"policy": {"crashes": 1}})
    bench = Bench(lambda _: Crashed("died of SIGKILL", exit_code=-9))
    async with executing(registry.store, bench):
        key, _ = await registry.submit(Order(queue="work"))
        [task] = await ended(registry, key)

    assert (task.status, task.reason, task.exit_code, task.crashes) == (FAILED, "died of SIGKILL", -9, 1)


async def test_a_running_task_is_cancelled(registry: Registry) -> None:
    bench = Bench(lambda _: None)
    async with executing(registry.store, bench):
        key, _ = await registry.submit(Order(queue="work"))
        await until(registry, key, lambda task: task.status == RUNNING)
        await registry.cancel(key, "not needed")
        [task] = await ended(registry, key)

    assert (task.status, task.reason) == (CANCELLED, "not needed")


async def test_a_node_that_stops_gives_its_tasks_back(registry: Registry) -> None:
    bench = Bench(lambda _: None)
    async with executing(registry.store, bench):
        key, _ = await registry.submit(Order(queue="work"))
        await until(registry, key, lambda task: task.status == RUNNING)
    task = (await registry.get(key))[1]

    assert (task.status, task.attempt, task.node) == (QUEUED, 0, None)


async def test_what_a_runner_did_not_touch_goes_back_to_the_queue(registry: Registry) -> None:
    answers: list[Ending] = [at_once(Job("", 0, 0, "", "function")), Untouched("its runner died")]
    bench = Bench(lambda _: answers.pop())
    async with executing(registry.store, bench):
        key, _ = await registry.submit(Order(queue="work"))
        [task] = await ended(registry, key)

    assert (task.status, task.attempt) == (SUCCEEDED, 1)


@pytest.mark.parametrize("bound", ["threads", "maxthreads"])
async def test_two_nodes_keep_to_a_bound_together(registry: Registry, bound: str) -> None:
    store = registry.store
    if bound == "threads":
        await update_queue(store, "work", {"threads": 3})
    else:
        for node in ("vm-1", "vm-2"):
            await change_limits(store, node, maxthreads=2)
    most = 0
    benches = [Bench(lambda _: None), Bench(lambda _: None)]
    async with executing(store, benches[0], slots=8), executing(store, benches[1], node="vm-2", slots=8):
        made = await registry.submit_all([Order(queue="work") for _ in range(20)])
        left = {key for key, _ in made}
        async with store.watch(TASKS, poll_s=0.05) as watch:
            while left:
                most = max(most, sum(len(bench.running) for bench in benches))
                for bench in benches:
                    for job in list(bench.running.values()):
                        left.discard(job.id)
                        bench.end(job, at_once(job))
                await watch.wait()

    assert 1 <= most <= (3 if bound == "threads" else 4)
    if bound == "maxthreads":
        assert max(bench.most for bench in benches) <= 2


async def test_a_paused_queue_waits_until_it_goes_on(registry: Registry) -> None:
    await update_queue(registry.store, "work", {"paused": True})
    bench = Bench(at_once)
    async with executing(registry.store, bench):
        key, _ = await registry.submit(Order(queue="work"))
        await create_queue(registry.store, Queue(name="other", kind="function"))
        registry.forget()
        other, _ = await registry.submit(Order(queue="other"))
        await ended(registry, other)
        waiting = (await registry.get(key))[1]
        await update_queue(registry.store, "work", {"paused": False})
        [task] = await ended(registry, key)

    assert (waiting.status, task.status) == (QUEUED, SUCCEEDED)


async def test_a_draining_node_takes_nothing_more(registry: Registry) -> None:
    await change_limits(registry.store, "vm-1", draining=True)
    drained, other = Bench(at_once), Bench(at_once)
    async with executing(registry.store, drained), executing(registry.store, other, node="vm-2"):
        made = await registry.submit_all([Order(queue="work") for _ in range(10)])
        await ended(registry, *(key for key, _ in made))

    assert (len(drained.jobs), len(other.jobs)) == (0, 10)


async def test_queues_that_a_node_may_not_or_cannot_serve_are_left_alone(registry: Registry) -> None:
    store = registry.store
    await create_queue(store, Queue(name="elsewhere", kind="function", nodes=("vm-2",)))
    await create_queue(store, Queue(name="not-here", kind="function", not_nodes=("vm-1",)))
    await create_queue(store, Queue(name="ignored", kind="function"))
    await create_queue(store, Queue(name="remote", kind="remote"))
    await create_queue(store, Queue(name="unknown", plugin="strange"))
    await create_queue(store, Queue(name="known", plugin="known"))
    names = ["elsewhere", "not-here", "ignored", "remote", "unknown"]
    bench = Bench(at_once)
    async with executing(store, bench, choice=Choice(ignored=("ignored",))) as execution:
        await registry.submit_all([Order(queue=name) for name in names])
        mine = await registry.submit_all([Order(queue="known"), Order(queue="work")])
        await ended(registry, *(key for key, _ in mine))

    assert {job.queue for job in bench.jobs} == {"known", "work"}
    assert execution.unknown == {"unknown"}
    assert await registry.count(eq("status", QUEUED)) == 5


async def test_newest_first_is_within_one_priority(registry: Registry) -> None:
    await update_queue(registry.store, "work", {"sort": "lifo"})
    made = await registry.submit_all([Order(queue="work", priority=at % 2) for at in range(6)])
    bench = Bench(at_once)
    async with executing(registry.store, bench, slots=1):
        await ended(registry, *(key for key, _ in made))

    order = {key: at for at, (key, _) in enumerate(made)}
    assert [order[job.id] for job in bench.jobs] == [5, 3, 1, 4, 2, 0]


async def test_a_task_that_another_has_taken_over_is_not_written(registry: Registry) -> None:
    bench = Bench(lambda _: None)
    async with executing(registry.store, bench) as execution:
        key, _ = await registry.submit(Order(queue="work"))
        await until(registry, key, lambda task: task.status == RUNNING)
        found = await registry.store.get(TASKS, key)
        assert found is not None
        await registry.store.release(TASKS, {key: found.term})
        await registry.store.claim(TASKS, Claim((eq("status", RUNNING),), "another", LONG.ttl_ms))
        bench.end(bench.running[key], at_once(bench.jobs[0]))
        await execution.wait_written()
        task = (await registry.get(key))[1]

    assert (task.status, task.stdout) == (RUNNING, None)


async def test_what_would_wait_long_is_left_to_another_node(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node has claimed ahead as tasks were quick, and then one of them takes for ever."""
    monkeypatch.setattr("tidemill.tasks.execution.PATIENCE_S", 3600.0)
    busy, idle = Bench(at_once), Bench(at_once)
    busy.slots = 1
    async with executing(registry.store, busy, slots=1):
        quick = await registry.submit_all([Order(queue="work") for _ in range(3)])
        await ended(registry, *(key for key, _ in quick))
        busy.answer = lambda _: None
        slow = await registry.submit_all([Order(queue="work") for _ in range(5)])
        first, *left = [key for key, _ in slow]
        await until(registry, first, lambda task: task.status == RUNNING)
        for key in left:
            await until(registry, key, lambda task: task.status == CLAIMED)
        monkeypatch.setattr("tidemill.tasks.execution.PATIENCE_S", 1.0)
        async with executing(registry.store, idle, node="vm-2", slots=4):
            tasks = await ended(registry, *left)

    assert {(task.status, task.node, task.attempt) for task in tasks} == {(SUCCEEDED, "vm-2", 1)}


async def test_a_run_is_ended_once_its_task_turns_out_to_be_anothers(registry: Registry) -> None:
    bench = Bench(lambda _: None)
    async with executing(registry.store, bench):
        key, _ = await registry.submit(Order(queue="work"))
        await until(registry, key, lambda task: task.status == RUNNING)
        found = (await registry.get(key))[2]
        await registry.store.release(TASKS, {key: found.term})
        await registry.store.claim(TASKS, Claim((eq("status", RUNNING),), "another", LONG.ttl_ms))
        bench.listener.progressed(bench.running[key], 10.0, "reading")
        async with asyncio.timeout(30):
            await bench.ended.wait()

    assert bench.running == {}


async def test_a_task_that_comes_back_to_its_node_is_not_run_there_twice_at_once(registry: Registry) -> None:
    bench = Bench(lambda job: None if len(bench.jobs) == 1 else at_once(job))
    async with executing(registry.store, bench):
        key, _ = await registry.submit(Order(queue="work"))
        await until(registry, key, lambda task: task.status == RUNNING)
        _, task, found = await registry.get(key)
        again = body_of(move(task, GivenBack(), Policy(), task.mtime))
        await registry.store.replace(TASKS, key, again, expect=found.revision, release=True)
        [done] = await ended(registry, key)

    assert (done.status, len(bench.jobs), bench.overlaps) == (SUCCEEDED, 2, 0)


async def test_a_machine_that_cannot_run_tasks_leaves_them_to_others(registry: Registry) -> None:
    told = asyncio.Event()

    def refuse(_: Job) -> Ending:
        told.set()
        return Untouched("too many open files", trouble=True)

    sick, well = Bench(refuse), Bench(at_once)
    async with executing(registry.store, sick):
        made = await registry.submit_all([Order(queue="work") for _ in range(20)])
        await told.wait()
        async with executing(registry.store, well, node="vm-2"):
            tasks = await ended(registry, *(key for key, _ in made))

    assert {(task.status, task.node, task.attempt, task.crashes) for task in tasks} == {(1, "vm-2", 1, 0)}
    assert len(sick.jobs) <= 4


async def test_an_error_that_nobody_thought_of_is_not_the_end_of_all_tasks(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemill.tasks.execution.TROUBLE_S", 0.01)
    bench = Bench(at_once)
    raised = 0

    class Failing(Execution):
        async def _claim(self, queue: Queue, room: int) -> None:
            nonlocal raised
            raised += 1
            if raised == 1:
                raise OverflowError("int too big to convert")
            await super()._claim(queue, room)

    place = Place(Seat("vm-1", "token-vm-1", LONG.ttl_ms), 4)
    async with Failing(registry.store, place, bench.of, Keeping(Shelves(registry.store), {}), timing=LONG):
        key, _ = await registry.submit(Order(queue="work"))
        [task] = await ended(registry, key)

    assert task.status == SUCCEEDED
    assert raised > 1


class Lingering(Bench):
    """Jobs that go on for a moment after they were cancelled, as those of processes do."""

    def cancel(self, key: str) -> None:
        job = self.running.get(key)
        if job is not None:
            stopped = Stopped("cancelled", "cancel")
            asyncio.get_running_loop().call_soon(self.listener.ended, job, stopped)


async def test_a_task_that_comes_back_to_its_node_leaves_no_slot_taken(registry: Registry) -> None:
    bench = Lingering(lambda _: None)
    async with executing(registry.store, bench, slots=2):
        key, _ = await registry.submit(Order(queue="work"))
        await until(registry, key, lambda task: task.status == RUNNING)
        _, task, found = await registry.get(key)
        again = body_of(move(task, GivenBack(), Policy(), task.mtime))
        await registry.store.replace(TASKS, key, again, expect=found.revision, release=True)
        await until(registry, key, lambda _: len(bench.jobs) == 2)
        other, _ = await registry.submit(Order(queue="work"))
        async with asyncio.timeout(30):
            await until(registry, other, lambda task: task.status == RUNNING)

    assert [job.id for job in bench.jobs] == [key, key, other]
