"""A spine in plain Python: slow, in memory, and so simple that it is right."""

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

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

    def extreme(
        self, keys: pa.RecordBatch, hashes: npt.NDArray[np.uint64], *, last: bool, before: bool = False
    ) -> Matches:
        matches = self.lookup(keys, hashes, before=before)
        probes, parts = [], []
        for probe in np.unique(matches.probe):
            held = consolidate(matches.found.filter(matches.probe == probe))
            held = held.filter(held.weights > 0)
            if len(held):
                ranks = [_rank(row) for row in values_of(pick(held.rows, self.spec.order))]
                best = (max if last else min)(range(len(held)), key=ranks.__getitem__)
                probes.append(probe)
                parts.append(held.slice(best, 1))
        return Matches(np.array(probes, np.int64), concat(parts, self.spec.schema, self.spec.width))

    def scan(self, *, before: bool = False) -> Iterator[ZSet]:
        state = consolidate(self._state(before=before))
        order = np.argsort(hash_rows(state.rows, self.spec.key), kind="stable")
        for start in range(0, len(state), 3):  # several pieces, as a large state has
            yield state.take(order[start : start + 3])

    def _state(self, *, before: bool) -> ZSet:
        parts = self._before if before else self._before + self._added
        return concat(parts, self.spec.schema, self.spec.width)


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
