"""Which runs are merged and when, as pure policy; and the act itself, over a stretch of hashes.

Runs up to `YOUNG_ROWS` rows are merged by the steps that add to them. Larger ones are merged in the
background, by size: once enough of one tier lie over the same hashes, they become one of the next tier. So
each row is rewritten about log(rows) times, and a lookup meets about log(rows) runs. While rows are loaded,
large runs are merged many at a time: a rewrite of theirs costs the load more than it gains. Once it is calm
they are merged like others, for the lookups of small steps.

A merge is cut into units that take a fraction of a second each. Addition has no order: while it is under way
steps go on adding runs, and when all its units are done its result takes the place of its inputs in one act.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from tidemill.pipeline import failpoint
from tidemill.pipeline.state.files import RunFiles, RunWriter
from tidemill.pipeline.state.forget import Forget, spared
from tidemill.pipeline.state.spec import RunRef
from tidemill.pipeline.state.stream import stream

YOUNG_ROWS = 1 << 15
UNIT_ROWS = 500_000
UNIT_BYTES = 64 << 20
OVERDUE_DEPTH = 40

LARGE_ROWS = 1 << 18

_FAN = 3
_LARGE_FAN = 10  # three tiers of these, up to 260 million rows a worker, stay below `OVERDUE_DEPTH`
_LARGE_TIER = 3
_YOUNG_FAN = 8  # more than steps leave behind; such runs are of pipeline workers that are no more
_TRIFLE_ROWS = 1 << 13


class MergeUnit(Struct, frozen=True):
    """One stretch of a merge, first and last hash included: a task of its own. It leaves out `forget`."""

    inputs: tuple[RunRef, ...]
    lo: int
    hi: int
    folder: str
    term: int
    step: int
    forget: Forget | None = None


class Merged(Struct, frozen=True):
    """What a unit gave: a run, or none when everything cancelled out."""

    added: tuple[RunRef, ...] = ()


class Merge(Struct, frozen=True):
    """Runs of one state to become one layer; `cuts` are the hashes at which its units start."""

    inputs: tuple[RunRef, ...]
    cuts: tuple[int, ...]
    forget: Forget | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(run.name for run in self.inputs)

    @property
    def owner(self) -> str:
        """The fingerprint of the operator whose state it is."""
        return self.inputs[0].state.partition(".")[0]

    def units(self, folder: str, term: int, step: int) -> tuple[MergeUnit, ...]:
        """The tasks; their files are named after this term and step."""
        last = max(run.hi for run in self.inputs)
        ends = [*(cut - 1 for cut in self.cuts[1:]), last]
        return tuple(
            MergeUnit(
                tuple(run for run in self.inputs if run.lo <= hi and run.hi >= lo),
                lo,
                hi,
                folder,
                term,
                step,
                self.forget,
            )
            for lo, hi in zip(self.cuts, ends, strict=True)
        )

    def result(self, merged: Iterable[Merged]) -> tuple[RunRef, ...]:
        """The runs of the new layer, from the results of all units."""
        runs = [run for one in merged for run in one.added]
        rows = sum(run.rows for run in runs)
        return tuple(replace(run, layer=rows) for run in runs)


def absorbed(sizes: Sequence[int]) -> int:
    """How many of the youngest runs (the last) a step merges into one; 1 means none.

    What together is a trifle is always merged, since looking into a run costs more than that.
    """
    count = total = 0
    for size in reversed(sizes):
        if count and size > 2 * total and size + total > _TRIFLE_ROWS:
            break
        count, total = count + 1, total + size
    return count


def plan_merges(runs: Iterable[RunRef], busy: Collection[str] = (), *, calm: bool = False) -> list[Merge]:
    """The merges that are due, the smallest first. None touches a run that is `busy` in another merge.

    `calm` says that no large runs have come for a while.
    """
    tiers: dict[tuple[str, int | None, int], list[RunRef]] = {}
    for run in runs:
        tiers.setdefault((run.state, run.lane, _tier(run)), []).append(run)
    found = []
    for (_, _, tier), members in tiers.items():
        for overlapping in _components(members):
            due = depth(overlapping) >= _fan(tier, calm)
            if due and not any(run.name in busy for run in overlapping):
                found.append(Merge(tuple(overlapping), _cuts(overlapping)))
    return sorted(found, key=lambda merge: sum(run.rows for run in merge.inputs))


def overdue(runs: Iterable[RunRef]) -> bool:
    """Whether so many runs wait to be merged that steps should wait for it."""
    lanes: dict[tuple[str, int | None], list[RunRef]] = {}
    for run in runs:
        lanes.setdefault((run.state, run.lane), []).append(run)
    return any(depth(members) > OVERDUE_DEPTH for members in lanes.values())


def depth(runs: Sequence[RunRef]) -> int:
    """In how many of the runs one hash may have to be looked up, at most."""
    changes = sorted([(run.lo, 0, 1) for run in runs] + [(run.hi, 1, -1) for run in runs])
    return int(np.cumsum([change for _, _, change in changes]).max(initial=0))


def run_merge(files: RunFiles, unit: MergeUnit) -> Merged:
    """Add up the runs within the unit's hashes and write the sum, piece by piece.

    What it reads is compared with the digests: raises `BlobDamaged` rather than spread damage. Running it
    again, also at the same time, writes another file with the same rows.
    """
    spec = files.spec(unit.inputs[0])
    runs = [files.open(run, spec) for run in unit.inputs]
    writer = RunWriter(files, unit.folder, unit.term, unit.step, "m")
    failpoint.reach("state.merge.before_write")
    pieces = spared(stream(runs, spec, unit.lo, unit.hi + 1, check=True), unit.forget)
    ref = writer.write(pieces, spec, unit.inputs[0].lane)
    failpoint.reach("state.merge.after_write")
    return Merged(() if ref is None else (ref,))


def _tier(run: RunRef) -> int:
    """By size: 0 for the young, then one more each time it is as many times larger as are merged."""
    if run.layer <= YOUNG_ROWS:
        return 0
    if run.layer <= LARGE_ROWS:
        return 1 + int(math.log(run.layer / YOUNG_ROWS, _FAN))
    return _LARGE_TIER + int(math.log(run.layer / LARGE_ROWS, _LARGE_FAN))


def _fan(tier: int, calm: bool) -> int:
    """How many runs of a tier are merged into one."""
    if not tier:
        return _YOUNG_FAN
    return _FAN if calm or tier < _LARGE_TIER else _LARGE_FAN


def _components(runs: Iterable[RunRef]) -> Iterator[list[RunRef]]:
    """Runs that overlap, directly or through others."""
    together: list[RunRef] = []
    end = -1
    for run in sorted(runs, key=lambda run: (run.lo, run.hi)):
        if together and run.lo > end:
            yield together
            together = []
        together.append(run)
        end = max(end, run.hi)
    if together:
        yield together


def _cuts(runs: Sequence[RunRef]) -> tuple[int, ...]:
    """Where units start so that each has about as many rows; hashes are spread evenly within a run."""
    rows, size = sum(run.rows for run in runs), sum(run.size for run in runs)
    count = max(1, -(-rows // UNIT_ROWS), -(-size // UNIT_BYTES))
    start = min(run.lo for run in runs)
    bounds = np.unique(np.array([bound for run in runs for bound in (run.lo, run.hi + 1)], np.float64))
    below = sum(run.rows * np.clip((bounds - run.lo) / (run.hi + 1 - run.lo), 0.0, 1.0) for run in runs)
    inner = np.interp(np.arange(1, count) * (rows / count), below, bounds)
    last = max(run.hi for run in runs)
    return tuple(sorted({start, *(min(max(int(cut), start), last) for cut in inner)}))
