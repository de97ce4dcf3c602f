"""The output log: what each step changed in each view, written once.

The output of a step is part of its record in the root, so that one write makes the appends taken and the
output there. A step that is replayed writes its output again; that is compared and thrown away.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from enum import Enum

from msgspec import Struct

from tidemill.base.log import get_logger
from tidemill.pipeline.errors import Forgotten, NoSuchName
from tidemill.pipeline.log.file import Files
from tidemill.pipeline.log.listing import read_listing, write_listing
from tidemill.pipeline.log.root import Root, RootOwner, StepRecord
from tidemill.pipeline.log.segment import SegmentRef
from tidemill.pipeline.step import NOTHING_TOLD, Outcome, complete

log = get_logger("tidemill.pipeline.output")


class Written(Enum):
    """What became of an output."""

    APPENDED = "appended"
    REPEATED = "repeated"  # it was there already, and the same: thrown away
    DIFFERENT = "different"  # it was there already, and not the same: thrown away, with a warning
    OUTDATED = "outdated"  # it was there once and is not kept any more: thrown away


class Change(Struct, frozen=True):
    """What one step changed in one view: the appends it reflects, and the segments with the rows."""

    step: int
    offsets: tuple[int, ...]
    segments: tuple[SegmentRef, ...]


def place(root: Root, step: int) -> Written:
    """What is to become of the output of this step. Raises `ValueError` for one that is not due yet."""
    if step < root.first:
        return Written.OUTDATED
    if step < root.last:
        return Written.REPEATED
    if step == root.last and root.under_way is not None:
        return Written.APPENDED
    raise ValueError(f"step {step} cannot have an output yet: {root.last} is the next to be settled")


def differing(before: Iterable[SegmentRef], after: Iterable[SegmentRef]) -> list[str]:
    """The views of which two outputs of one step tell different changes, as far as their sums say."""
    sums: defaultdict[str, int] = defaultdict(int)
    for segments, sign in ((before, 1), (after, -1)):
        for segment in segments:
            sums[segment.table] += sign * (segment.sum or 0)
    return sorted(view for view, total in sums.items() if total % 2**64)


class OutputLog:
    """The output log of a pipeline in the hands of its owner."""

    def __init__(self, owner: RootOwner, files: Files, *, folder: str) -> None:
        self._owner = owner
        self._files = files
        self._folder = folder

    async def write(
        self, step: int, segments: Sequence[SegmentRef], outcome: Outcome = NOTHING_TOLD
    ) -> Written:
        """Make these published segments the output of the step under way, which is then done.

        An output that is there already is compared, with a warning if it differs, and thrown away; so is one
        that is not kept any more. Raises `ValueError` for a step that is not due yet, `NotOpen` when another
        owner took over. Repeating it after an error of the store is safe.
        """
        root = self._owner.root
        found = place(root, step)
        if found is Written.REPEATED and not await self._same(step, segments):
            return Written.DIFFERENT
        if found is Written.APPENDED:
            name = f"{self._folder}/listing/t{root.term}/s{step}"
            listing = await write_listing(self._files, name, segments)

            def settle(root: Root) -> Root:
                if place(root, step) is not Written.APPENDED:
                    return root
                return complete(root, step, listing, outcome)

            await self._owner.update(settle)
        return found

    async def read(self, step: int) -> tuple[StepRecord, tuple[SegmentRef, ...]]:
        """The record of a settled step, and the segments it put out for all views."""
        root = self._owner.root
        if step < root.first:
            raise Forgotten(f"step {step} is not kept any more; {root.first} is the first that is")
        if step >= root.last:
            raise NoSuchName(f"step {step} is not done yet; {root.last - 1} is the last that is")
        [record] = [record async for record in self._owner.records(step, step + 1)]
        return record, await read_listing(self._files, record.output)

    async def read_since(self, view: str, step: int, until: int | None = None) -> list[Change]:
        """What changed in the view after this step, up to and with `until` or the last one, in order.

        Steps that changed nothing in it are left out. Raises `Forgotten` when some of it is not kept.
        """
        root = self._owner.root
        if step + 1 < root.first:
            raise Forgotten(f"step {step + 1} is not kept any more; {root.first} is the first that is")
        stop = root.last if until is None else min(until + 1, root.last)
        changes = []
        async for record in self._owner.records(step + 1, stop):
            segments = await read_listing(self._files, record.output)
            if mine := tuple(segment for segment in segments if segment.table == view):
                changes.append(Change(record.number, record.offsets, mine))
        return changes

    async def _same(self, step: int, segments: Sequence[SegmentRef]) -> bool:
        record, before = await self.read(step)
        views = differing(before, segments) if record.state == "done" else []
        if views:
            log.warning("output.differs", step=step, views=views)
        return not views
