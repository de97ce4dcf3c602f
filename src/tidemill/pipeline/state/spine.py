"""A spine: the running sum of one state, as a pipeline worker sees it.

It is a list of runs whose sum is the state: those of the manifest, mapped from files, and those added since,
in memory. Nothing is ever changed in place, so "before" and "after" a change are two lengths of one list.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidemill.pipeline.state.extreme import Ranking, Reach, find_extremes
from tidemill.pipeline.state.files import RunFiles
from tidemill.pipeline.state.merges import absorbed
from tidemill.pipeline.state.piece import arrange, join
from tidemill.pipeline.state.run import Run, cut_pieces, sort_run
from tidemill.pipeline.state.spans import Place, clip, find_spans, narrow
from tidemill.pipeline.state.spec import Part, RunRef, StateSpec
from tidemill.pipeline.state.stream import stream
from tidemill.pipeline.zset import ZSet, concat, equal_rows, hashing
from tidemill.pipeline.zset.hashing import Hashes
from tidemill.pipeline.zset.value import Indices, take_rows


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Rows of a state that were looked up: `found[i]` has the key number `probe[i]`.

    A row that lies in several runs appears several times; its weights add up to that in the state.
    """

    probe: Indices
    found: ZSet


@dataclass(slots=True, eq=False)
class Held:
    """A run of a spine: in memory, or in a file that the manifest does (`sealed`) or does not yet name.

    That of a file is opened when first used.
    """

    run: Run | None
    ref: RunRef | None = None
    sealed: bool = False

    @property
    def rows(self) -> int:
        if self.ref is not None:
            return self.ref.rows
        return self.run.rows if self.run is not None else 0


class Spine:
    """The running sum of one state within what one pipeline worker owns of it."""

    def __init__(
        self, spec: StateSpec, part: Part, files: RunFiles | None = None, refs: Sequence[RunRef] = ()
    ) -> None:
        """The sum of the runs in a manifest, as far as they are this worker's. Opened when first used.

        Without files it lives in memory alone.
        """
        self.spec = spec
        self.part = part
        self.files = files
        self.held = [Held(None, ref, sealed=True) for ref in refs if part.touches(ref)]
        self._settled = len(self.held)  # so many make up "before"

    def add(self, change: ZSet) -> None:
        """Add to the sum: visible to lookups at once, except to those "before" the present round.

        Raises `StepAborted` when a weight does not fit.
        """
        run = sort_run(change, self.spec)
        if not run.rows:
            return
        if self.spec.aligned and not self.part.lo <= run.firsts[0] <= run.lasts[-1] < self.part.hi:
            raise ValueError(f"state {self.spec.name}: the change has rows of another pipeline worker")
        self.held.append(Held(run))

    def next_round(self) -> None:
        """What was added is "before" from now on. Merges what is in memory, so that it stays few runs."""
        memory = [held for held in self.held if held.ref is None]
        count = absorbed([held.rows for held in memory])
        if count > 1:
            pieces = [piece for held in memory[-count:] for piece in self.open(held).pieces]
            run = Run(list(cut_pieces(arrange(join(pieces, self.spec), self.spec))))
            self.replace(memory[-count:], [Held(run)] if run.rows else [])
        self._settled = len(self.held)

    def lookup(self, keys: pa.RecordBatch, hashes: Hashes, *, before: bool = False) -> Matches:
        """All rows whose key is one of these. `hashes` are those of the keys; any order, also repeated.

        Costs keys * runs * log(rows). With `before`, without what was added in this round.
        """
        order = np.argsort(hashes, kind="stable")
        hashes = hashes[order]
        probes, found = [], []
        for run in self._runs(before, hashes):
            for piece, probe, row in run.find(hashes):
                probes.append(order[probe])
                found.append(piece.z.take(row))
        if not found:
            return Matches(np.zeros(0, np.int64), ZSet.empty(self.spec.schema, self.spec.width))
        matches = Matches(np.concatenate(probes), concat(found, self.spec.schema, self.spec.width))
        return self._verified(matches, keys)

    def extreme(
        self,
        keys: pa.RecordBatch,
        hashes: Hashes,
        *,
        last: bool,
        count: int = 1,
        ranking: Ranking = "row_number",
        low: Place | None = None,
        high: Place | None = None,
        before: bool = False,
    ) -> Matches:
        """For each key the first or last rows, by the state's order, whose weight is positive.

        Those whose number from that end is at most `count`; by row_number the last of them may have more
        copies than that. With places, only rows from `low` to `high`: `last` rows below a place are those
        right before it. Rows of one key come together, the outermost first, each once with its full weight.
        Rows that are equal by the order go by their hash. Costs keys * runs * (log(rows) + count) as long as
        few of the outermost rows add up to nothing.
        """
        order, low, high = _in_order(hashes, low, high)
        runs = list(self._runs(before, hashes[order]))
        wanted = take_rows(keys, order)
        reach = Reach(last, count, ranking)
        probe, found = find_extremes(runs, self.spec, wanted, hashes[order], reach, low, high)
        return Matches(order[probe], found)

    def between(
        self,
        keys: pa.RecordBatch,
        hashes: Hashes,
        low: Place | None = None,
        high: Place | None = None,
        *,
        before: bool = False,
    ) -> Matches:
        """As `lookup`, but for each key only its rows from one place in the state's order to another.

        `Place(values)` and `Place(values, after=True)` take both ends in. Costs keys * runs * log(rows) and
        what is found.
        """
        order, low, high = _in_order(hashes, low, high)
        pieces, spans = find_spans(list(self._runs(before, hashes[order])), hashes[order])
        spans = clip(pieces, spans, self.spec, low, high)
        if not len(spans):
            return Matches(np.zeros(0, np.int64), ZSet.empty(self.spec.schema, self.spec.width))
        span, taken = spans.take(pieces, self.spec)
        return self._verified(Matches(order[spans.probe[span]], taken.z), keys)

    def weigh(self, hashes: Hashes) -> Indices:
        """How many rows a lookup of each hash would meet, at most. Costs keys * runs * log(rows)."""
        order = np.argsort(hashes, kind="stable")
        _, spans = find_spans(list(self._runs(False, hashes[order])), hashes[order])
        found = np.zeros(len(hashes), np.int64)
        np.add.at(found, order[spans.probe], spans.count)
        return found

    def weights(self, rows: pa.RecordBatch) -> Indices:
        """The weight of each of these rows, however many others its key has. For a state without order.

        Costs rows * runs * log(rows).
        """
        hashes = hashing.hash_rows(rows, self.spec.key)
        order = np.argsort(hashes, kind="stable")
        pieces, spans = find_spans(list(self._runs(False, hashes[order])), hashes[order])
        spans = narrow(pieces, spans, hashing.hash_rows(rows)[order])
        found = np.zeros(rows.num_rows, np.int64)
        if len(spans):
            span, taken = spans.take(pieces, self.spec)
            probe = order[spans.probe[span]]
            same = equal_rows(take_rows(rows, probe), taken.z.rows)
            np.add.at(found, probe[same], taken.z.weights[same])
        return found

    def scan(self, *, before: bool = False) -> Iterator[ZSet]:
        """All rows, each once, in pieces of bounded size."""
        for piece in stream(list(self._runs(before)), self.spec):
            yield piece.z

    @property
    def lane(self) -> int | None:
        """The shard with whose owner its runs lie; None where their hashes say who owns them."""
        if self.spec.aligned:
            return None
        return self.part.shards.start if self.spec.home is None else self.spec.home

    @property
    def memory_bytes(self) -> int:
        """What was added and lies in memory only."""
        return sum(held.run.bytes for held in self.held if held.ref is None and held.run is not None)

    def swap(self, removed: Sequence[str], added: Sequence[RunRef]) -> None:
        """Between two steps, take the result of a merge instead of its inputs. The sum stays the same."""
        names = set(removed)
        gone = [held for held in self.held if held.ref is not None and held.ref.name in names]
        self.replace(gone, [Held(None, ref, sealed=True) for ref in added if self.part.touches(ref)])

    def replace(self, gone: Sequence[Held], new: Sequence[Held]) -> None:
        """Hold other runs with the same sum. Ends the round."""
        self.held = [held for held in self.held if held not in gone] + list(new)
        self._settled = len(self.held)

    def open(self, held: Held) -> Run:
        """Its run, as far as it is this worker's."""
        if held.run is None:
            assert held.ref is not None
            assert self.files is not None
            held.run = self.files.open(held.ref, self.spec)
            if self.spec.aligned and not self.part.owns(held.ref):
                held.run = held.run.between(self.part.lo, self.part.hi)
        return held.run

    def _runs(self, before: bool, hashes: Hashes | None = None) -> Iterator[Run]:
        """The runs, without those outside the range of the ascending hashes."""
        for held in self.held[: self._settled] if before else self.held:
            if held.ref is None or hashes is None or _in_range(held.ref, hashes):
                yield self.open(held)

    def _verified(self, matches: Matches, keys: pa.RecordBatch) -> Matches:
        equal = equal_rows(take_rows(keys, matches.probe), matches.found.rows, None, self.spec.key)
        if equal.all():
            return matches
        return Matches(matches.probe[equal], matches.found.filter(equal))


def _in_order(
    hashes: Hashes, low: Place | None, high: Place | None
) -> tuple[Indices, Place | None, Place | None]:
    """What sorts the probes by their hash, and the places so sorted."""
    order = np.argsort(hashes, kind="stable")
    return order, None if low is None else low.take(order), None if high is None else high.take(order)


def _in_range(ref: RunRef, hashes: Hashes) -> bool:
    place = int(np.searchsorted(hashes, np.uint64(ref.lo)))
    return place < len(hashes) and int(hashes[place]) <= ref.hi
