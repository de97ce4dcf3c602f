"""The leader's side of schedules: create the tasks that are due."""

from collections.abc import Callable

from msgspec.structs import replace

from tidemill.base.log import get_logger
from tidemill.cluster import Grant
from tidemill.store import Conflict, Fence, Fenced, Store
from tidemill.tasks.errors import TaskError
from tidemill.tasks.rounds import rounds
from tidemill.tasks.schedule import Schedule, due, next_runs, order_for, run_key
from tidemill.tasks.schedules import SCHEDULES, Submit, list_schedules, submit_once, write_schedule

log = get_logger("tidemill.scheduler")

REST_S = 60.0
"""How long it rests at most: the store's clock may be set, and a change may go unheard."""


class Scheduler:
    """Creates a task at each moment of each schedule: `Duty("schedules", scheduler.lead)`.

    A task's key is made of schedule and moment, so that whoever creates it again, be it a leader that does
    not know yet that it is none, or the next after a crash, creates nothing. Only when the tasks are there
    does the schedule's `last` move, by compare-and-set under the leader's fence.
    """

    def __init__(self, store: Store, submit: Submit, fence: Callable[[], Fence]) -> None:
        self._store = store
        self._submit = submit
        self._fence = fence

    async def lead(self, _: Grant) -> None:
        """Go on until cancelled. After an error it may be called again, and begins from what is stored."""
        await rounds(self._store, SCHEDULES, self.round)

    async def round(self) -> float:
        """Create what is due now; return the seconds until more is, or may be.

        A schedule whose task cannot be created says so in its document, keeps no other from its turn, and is
        tried again: until then its moments are missed ones.
        """
        active = [schedule for schedule in await list_schedules(self._store) if not schedule.paused]
        if not active:
            return REST_S
        now = await self._store.now()
        upcoming = now + round(1000 * REST_S)
        for schedule in active:
            try:
                after = await self._fire(schedule, now)
                upcoming = min([upcoming, *next_runs(after, now, 1)])
            except TaskError as error:
                after = replace(schedule, error=str(error))
            if after != schedule:
                await self._write(after)
        return (upcoming - now) / 1000

    async def _fire(self, schedule: Schedule, now: int) -> Schedule:
        """Create the tasks that are due by the schedule; return it as it is to be written then."""
        moments, after = due(schedule, now)
        for moment in moments:
            await submit_once(self._submit, order_for(schedule, run_key(schedule, moment)))
        if after.dropped > schedule.dropped:
            count = after.dropped - schedule.dropped
            log.warning("schedule.dropped", schedule=schedule.name, count=count, missed=schedule.missed)
        return after

    async def _write(self, after: Schedule) -> None:
        if after.error is not None:
            log.warning("schedule.failed", schedule=after.name, error=after.error)
        try:
            await write_schedule(self._store, after, expect=after.revision, fence=self._fence())
        except Fenced:
            raise
        except Conflict:
            # Somebody changed or deleted it. What they made of it is looked at in the next round.
            log.debug("schedule.changed_meanwhile", schedule=after.name)
