"""A spine in plain Python: slow, in memory, and so simple that it is right."""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.pipeline.state.extreme import Ranking
from tidemill.pipeline.state.order import ASCENDING
from tidemill.pipeline.state.spans import Place
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.state.spine import Matches
from tidemill.pipeline.testing.bags import values_of
from tidemill.pipeline.zset import ZSet, concat, consolidate, hash_rows, pick


class ModelSpine:
    """Answers as `state.spine.Spine` does, of a state in memory. Refuses what does not fit its spec."""

    def __init__(self, spec: StateSpec) -> None:
        self.spec = spec
        self._before: tuple[ZSet, ...] = ()
        self._added: tuple[ZSet, ...] = ()

    def add(self, change: ZSet) -> None:
        assert change.schema == self.spec.schema
        assert change.width == self.spec.width
        self._added += (change,)

    def next_round(self) -> None:
        self._before, self._added = self._before + self._added, ()

    def lookup(
        self, keys: pa.RecordBatch, hashes: npt.NDArray[np.uint64], *, before: bool = False
    ) -> Matches:
        assert (hashes == hash_rows(keys)).all()
        state = self._state(before=before)
        places = defaultdict(list)
        for place, key in enumerate(values_of(pick(state.rows, self.spec.key))):
            places[key].append(place)
        found = [(probe, place) for probe, key in enumerate(values_of(keys)) for place in places[key]]
        probes, rows = np.array(found, np.int64).reshape(-1, 2).T
        return Matches(probes.copy(), state.take(rows.copy()))

    def weights(self, rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
        state = consolidate(self._state(before=False))
        held = dict(zip(values_of(state.rows), state.weights.tolist(), strict=True))
        return np.array([held.get(row, 0) for row in values_of(rows)], np.int64)

    def extreme(
        self,
        keys: pa.RecordBatch,
        hashes: npt.NDArray[np.uint64],
        *,
        last: bool,
        count: int = 1,
        ranking: Ranking = "row_number",
        low: Place | None = None,
        high: Place | None = None,
        before: bool = False,
    ) -> Matches:
        matches = self.between(keys, hashes, low, high, before=before)
        probes, parts = [], []
        for probe in np.unique(matches.probe):
            held = consolidate(matches.found.filter(matches.probe == probe))
            held = held.filter(held.weights > 0)
            ranks = self._ranks(held.rows)
            inward = sorted(range(len(held)), key=ranks.__getitem__, reverse=last)
            number = {"row_number": 1, "rank": 1, "dense_rank": 0}[ranking]
            copies, value = 0, None
            for place in inward:
                if ranking == "row_number" or value != ranks[place][:-1]:
                    number = number + 1 if ranking == "dense_rank" else copies + 1
                value = ranks[place][:-1]
                copies += int(held.weights[place])
                if number <= count:
                    probes.append(probe)
                    parts.append(held.slice(place, 1))
        return Matches(np.array(probes, np.int64), concat(parts, self.spec.schema, self.spec.width))

    def between(
        self,
        keys: pa.RecordBatch,
        hashes: npt.NDArray[np.uint64],
        low: Place | None = None,
        high: Place | None = None,
        *,
        before: bool = False,
    ) -> Matches:
        matches = self.lookup(keys, hashes, before=before)
        inside = np.ones(len(matches.probe), np.bool_)
        for place, wanted in ((low, False), (high, True)):
            if place is not None:
                inside &= self._is_before(matches, place) == wanted
        return Matches(matches.probe[inside], matches.found.take(np.flatnonzero(inside)))

    def _ranks(self, rows: pa.RecordBatch) -> list[tuple[Any, ...]]:
        """What sorts each row as the state does: by the order columns, then by the hash."""
        found = _ranked(pick(rows, self.spec.order), self.spec)
        return [(*rank, int(own)) for rank, own in zip(found, hash_rows(rows), strict=True)]

    def _is_before(self, matches: Matches, place: Place) -> npt.NDArray[np.bool_]:
        places = _ranked(place.values, self.spec)
        rows = matches.found.rows
        ranks = self._ranks(rows) if place.columns is None else _ranked(pick(rows, place.columns), self.spec)
        found = []
        for probe, rank in zip(matches.probe, ranks, strict=True):
            wanted = places[probe]
            if place.row_hashes is not None:
                wanted = (*wanted, int(place.row_hashes[probe]))
            mine = rank[: len(wanted)]
            found.append(mine < wanted or (mine == wanted and place.after))
        return np.array(found, np.bool_)

    def weigh(self, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        held = hash_rows(self._state(before=False).rows, self.spec.key)
        return np.array([np.count_nonzero(held == one) for one in hashes], np.int64)

    def scan(self, *, before: bool = False) -> Iterator[ZSet]:
        state = consolidate(self._state(before=before))
        order = np.argsort(hash_rows(state.rows, self.spec.key), kind="stable")
        for start in range(0, len(state), 3):  # several pieces, as a large state has
            yield state.take(order[start : start + 3])

    def _state(self, *, before: bool) -> ZSet:
        parts = self._before if before else self._before + self._added
        return concat(parts, self.spec.schema, self.spec.width)


def _ranked(rows: pa.RecordBatch, spec: StateSpec) -> list[tuple[Any, ...]]:
    """What sorts values of the leading order columns, each in its direction."""
    ways = spec.directions or [ASCENDING] * len(spec.order)
    return [
        tuple(
            (1 if way.nulls_last else -1,) if value is None else (0, _Rank(_rank(value), way.descending))
            for value, way in zip(row, ways, strict=False)
        )
        for row in values_of(rows)
    ]


@dataclass(frozen=True, slots=True)
class _Rank:
    value: Any
    descending: bool

    def __lt__(self, other: "_Rank") -> bool:
        return bool(other.value < self.value if self.descending else self.value < other.value)


def _rank(value: Any) -> Any:
    """What sorts as Spark does: NULL first, NaN last."""
    match value:
        case None:
            return (0,)
        case "NaN":
            return (1, math.inf, 1)
        case float():
            return (1, value, 0)
        case tuple():
            return (1, tuple(_rank(part) for part in value))
        case _:
            return (1, value)
