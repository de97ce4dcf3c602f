"""The verbs on schedules, on every store that runs here."""

import pytest
from msgspec.structs import replace

from tidemill.store import Conflict, Store
from tidemill.tasks.errors import BadTask, NoSuchQueue, NoSuchSchedule, ScheduleExists
from tidemill.tasks.queue import Queue, create_queue
from tidemill.tasks.registry import Registry
from tidemill.tasks.schedule import Schedule
from tidemill.tasks.schedules import (
    create_schedule,
    delete_schedule,
    get_schedule,
    list_schedules,
    run_now,
    update_schedule,
    write_schedule,
)

HOURLY = Schedule(name="hourly", cron="0 * * * *", queue="work", params={"a": 1})


@pytest.fixture(autouse=True)
async def queues(store: Store) -> None:
    """A queue that runs a plugin, and one of functions."""
    await create_queue(store, Queue(name="work", plugin="demo"))
    await create_queue(store, Queue(name="calls", kind="function"))


@pytest.fixture
def registry(store: Store) -> Registry:
    return Registry(store)


async def test_a_schedule_is_kept_as_it_was_given(store: Store) -> None:
    made = await create_schedule(store, HOURLY)

    assert await get_schedule(store, "hourly") == made
    assert await list_schedules(store) == [made]
    assert (made.cron, made.params, made.zone, made.missed) == ("0 * * * *", {"a": 1}, "UTC", "catch_up")


async def test_it_counts_from_when_it_is_made_and_again_when_it_is_made_anew(store: Store) -> None:
    old = await create_schedule(store, Schedule(name="s", cron="* * * * *", queue="work", last=1, runs=5))
    assert (old.last, old.runs) == (old.ctime, 0)

    await delete_schedule(store, "s")
    new = await create_schedule(store, Schedule(name="s", cron="* * * * *", queue="work"))

    assert new.last >= old.last > 1


async def test_a_name_is_taken_once(store: Store) -> None:
    await create_schedule(store, HOURLY)
    with pytest.raises(ScheduleExists, match="'hourly' exists already"):
        await create_schedule(store, HOURLY)


async def test_its_queue_must_exist(store: Store) -> None:
    with pytest.raises(NoSuchQueue, match="there is no queue 'idle'"):
        await create_schedule(store, Schedule(name="s", cron="* * * * *", queue="idle"))
    await create_schedule(store, HOURLY)
    with pytest.raises(NoSuchQueue, match="there is no queue 'idle'"):
        await update_schedule(store, "hourly", {"queue": "idle"})


async def test_a_queue_of_functions_has_none_as_there_is_nothing_to_call(store: Store) -> None:
    with pytest.raises(BadTask, match="queue 'calls' is of functions"):
        await create_schedule(store, replace(HOURLY, queue="calls"))
    await create_schedule(store, HOURLY)
    with pytest.raises(BadTask, match="queue 'calls' is of functions"):
        await update_schedule(store, "hourly", {"queue": "calls"})


async def test_what_cannot_be_one_is_not_made(store: Store) -> None:
    with pytest.raises(BadTask, match="schedule 's': cron 'often' has 1 fields"):
        await create_schedule(store, Schedule(name="s", cron="often", queue="work"))

    assert await list_schedules(store) == []


async def test_what_is_not_there_is_told(store: Store) -> None:
    for name in ("hourly", ""):
        with pytest.raises(NoSuchSchedule, match=f"there is no schedule '{name}'"):
            await get_schedule(store, name)
    with pytest.raises(NoSuchSchedule):
        await update_schedule(store, "hourly", {"paused": True})
    with pytest.raises(NoSuchSchedule):
        await delete_schedule(store, "hourly")


async def aged(store: Store) -> Schedule:
    """A schedule whose last moment is long past."""
    made = await create_schedule(store, HOURLY)
    return await write_schedule(store, replace(made, last=made.last - 10**8, runs=7), expect=made.revision)


@pytest.mark.parametrize("change", [{"params": {"b": 2}}, {"missed": "skip"}, {"paused": True}])
async def test_a_change_leaves_the_rest_as_it_is(store: Store, change: dict[str, object]) -> None:
    before = await aged(store)
    after = await update_schedule(store, "hourly", change)

    assert {name: getattr(after, name) for name in change} == change
    assert (after.last, after.runs, after.cron) == (before.last, 7, "0 * * * *")
    assert await get_schedule(store, "hourly") == after


@pytest.mark.parametrize("change", [{"cron": "1 * * * *"}, {"zone": "Europe/Berlin"}])
async def test_a_new_line_or_zone_counts_from_now_on(store: Store, change: dict[str, str]) -> None:
    before = await aged(store)
    now = await store.now()
    after = await update_schedule(store, "hourly", change)

    assert before.last < now <= after.last


async def test_what_falls_into_a_pause_is_not_missed(store: Store) -> None:
    await aged(store)
    await update_schedule(store, "hourly", {"paused": True})
    now = await store.now()
    resumed = await update_schedule(store, "hourly", {"paused": False})

    assert now <= resumed.last


@pytest.mark.parametrize("field", ["name", "last", "runs", "revision"])
async def test_what_it_counts_itself_cannot_be_changed(store: Store, field: str) -> None:
    await create_schedule(store, HOURLY)
    with pytest.raises(BadTask, match=f"schedule 'hourly': {field} cannot be changed"):
        await update_schedule(store, "hourly", {field: 1})


async def test_a_bad_change_is_refused_and_changes_nothing(store: Store) -> None:
    made = await create_schedule(store, HOURLY)
    with pytest.raises(BadTask, match="hour '25' is not understood"):
        await update_schedule(store, "hourly", {"cron": "0 25 * * *"})

    assert await get_schedule(store, "hourly") == made


async def test_a_change_can_be_bound_to_a_revision(store: Store) -> None:
    made = await create_schedule(store, HOURLY)
    await update_schedule(store, "hourly", {"paused": True}, expect=made.revision)
    with pytest.raises(Conflict):
        await update_schedule(store, "hourly", {"paused": False}, expect=made.revision)


async def test_running_now_makes_a_task_beside_its_moments(store: Store, registry: Registry) -> None:
    made = await create_schedule(store, HOURLY)
    await update_schedule(store, "hourly", {"paused": True})
    first = await run_now(store, registry.submit, "hourly")
    second = await run_now(store, registry.submit, "hourly")

    assert first != second
    _, task, _ = await registry.get(first)
    assert (task.queue, task.params, task.parent) == ("work", {"a": 1}, "schedule:hourly")
    assert (await get_schedule(store, "hourly")).last == made.last


async def test_running_now_can_be_repeated(store: Store, registry: Registry) -> None:
    await create_schedule(store, HOURLY)
    keys = {await run_now(store, registry.submit, "hourly", run="mine") for _ in range(2)}

    assert keys == {"schedule:hourly:now:mine"}
    assert await registry.count() == 1


async def test_a_schedule_that_is_deleted_leaves_its_tasks(store: Store, registry: Registry) -> None:
    await create_schedule(store, HOURLY)
    await run_now(store, registry.submit, "hourly")
    await delete_schedule(store, "hourly")

    assert await list_schedules(store) == []
    assert await registry.count() == 1


async def test_many_are_listed_by_name(store: Store) -> None:
    await create_queue(store, Queue(name="other", plugin="demo"))
    for name in ("b", "a", "c"):
        await create_schedule(store, Schedule(name=name, cron="0 0 * * *", queue="other"))

    assert [found.name for found in await list_schedules(store)] == ["a", "b", "c"]
