"""How a node's figures reach others: a document per node, written seldom.

They do not lie with the node list: all hearts watch that, so that each report would make every node beat.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from tidemill.base.clock import Clock, boot_clock
from tidemill.base.log import get_logger
from tidemill.base.service import Service
from tidemill.cluster.figures import Alarm, Counts, Figures, Window, alarms
from tidemill.cluster.heart import Beats
from tidemill.cluster.lease import Timing
from tidemill.cluster.nodes import LEASES
from tidemill.cluster.standing import Standing
from tidemill.store import Collection, Done, Fence, Statistics, Store, StoreError, Write

log = get_logger("tidemill.reports")

REPORTS = Collection("reports")

REPORT_EVERY_S = 30.0
STUCK_AFTER_S = 4 * REPORT_EVERY_S


class Pulse(Protocol):
    """A heart, as far as it is reported on."""

    @property
    def standing(self) -> Standing: ...

    def statistics(self) -> Beats: ...

    def store_statistics(self) -> Statistics: ...


class Reporter(Service):
    """Samples a node's counts, says in the log when an alarm begins and ends, and reports to the store.

    It reports every half a minute, and at once when the alarms are others than before. A report that cannot
    be written is left for the next round. `figures` and `alarms` are from memory, and answer at any time.
    """

    name = "reporter"

    def __init__(
        self, store: Store, heart: Pulse, timing: Timing, *, key: str, clock: Clock = boot_clock
    ) -> None:
        super().__init__()
        self._store = store
        self._heart = heart
        self._timing = timing
        self._key = key
        self._clock = clock
        self._window = Window()
        self._raised: dict[str, Alarm] = {}
        self._reported: frozenset[str] | None = None
        self._due = 0.0
        self._revision: int | None = None

    def figures(self) -> Figures:
        now, beats = self._clock(), self._heart.statistics()
        counts = self._counts(beats)
        window_s, recent = self._window.since(now, counts)
        return Figures(
            at=beats.store_ms,
            ttl_s=self._timing.ttl_s,
            age_s=beats.age_s,
            skew_s=beats.skew_ms / 1000,
            skew_error_s=beats.skew_error_ms / 1000,
            window_s=window_s,
            total=counts,
            recent=recent,
        )

    def alarms(self) -> list[Alarm]:
        return alarms(self.figures())

    async def tick(self) -> float:
        now = self._clock()
        self._window.add(now, self._counts(self._heart.statistics()))
        figures = self.figures()
        raised = {alarm.code: alarm for alarm in alarms(figures)}
        self._tell(raised)
        if now >= self._due or self._reported != raised.keys():
            try:
                if await self._write(figures):
                    self._due, self._reported = now + REPORT_EVERY_S, frozenset(raised)
            except StoreError as error:
                log.debug("report.not_written", error=str(error), code=error.code)
        return self._timing.beat_s

    def _counts(self, beats: Beats) -> Counts:
        stores = (self._store.statistics(), self._heart.store_statistics())
        summed = map(sum, zip(*map(msgspec.structs.astuple, stores), strict=True))
        return Counts(beats.beats, beats.missed, beats.late, beats.answers_s, *summed)

    def _tell(self, raised: dict[str, Alarm]) -> None:
        for code, alarm in raised.items():
            if code not in self._raised:
                log.warning("alarm.raised", alarm=code, message=alarm.message, fix=alarm.fix)
        for code in self._raised.keys() - raised.keys():
            log.info("alarm.over", alarm=code)
        self._raised = raised

    async def _write(self, figures: Figures) -> bool:
        """Write the report under this node's own lease. False when it has none, or the report moved on."""
        grant = self._heart.standing.node
        if grant is None:
            return False
        if self._revision is None:
            found = await self._store.get(REPORTS, self._key)
            self._revision = found.revision if found is not None else None
        fence = Fence(LEASES, self._key, grant.term)
        write = Write(REPORTS, self._key, msgspec.to_builtins(figures), self._revision, fence)
        [outcome] = await self._store.write([write])
        self._revision = outcome.revision if isinstance(outcome, Done) else None
        return isinstance(outcome, Done)


async def read_reports(store: Store, keys: Sequence[str]) -> dict[str, Figures]:
    """What the nodes with these keys last reported; a report that this release cannot read is left out."""
    found = await store.get_many(REPORTS, keys) if keys else {}
    read: dict[str, Figures] = {}
    for key, document in found.items():
        try:
            read[key] = msgspec.convert(document.body, Figures)
        except msgspec.ValidationError as error:
            log.debug("report.not_understood", node=key, error=str(error))
    return read


async def remove_reports(store: Store, keys: Sequence[str]) -> None:
    """Remove what nodes that are gone reported; one that came back reports anew."""
    found = await store.get_many(REPORTS, keys) if keys else {}
    await store.write([Write(REPORTS, key, None, document.revision) for key, document in found.items()])
