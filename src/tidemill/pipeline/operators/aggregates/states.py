"""A state per group for a user's aggregate that can retract: what a change adds is added, and so on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.pipeline.operators.aggregates.extremes import Values
from tidemill.pipeline.operators.aggregates.measure import (
    Chosen,
    Folded,
    Function,
    Integers,
    Looked,
    Touched,
)
from tidemill.pipeline.operators.aggregates.user import UserAggregate, converted, unpacked
from tidemill.pipeline.plan.node import AggregateCall
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.zset import Groups, ZSet, concat, consolidate, group_rows
from tidemill.pipeline.zset.value import Indices, Weights, batch, pick, take_rows

COUNT, STATE = pa.field("rows", pa.int64()), pa.field("state", pa.large_binary())


@dataclass(frozen=True, slots=True)
class States(Folded):
    """The state of each group, beside how many rows are in it.

    What travels there is rows, and states of groups to which several were added, to be merged.
    """

    chosen: Chosen
    columns: tuple[int, ...]
    code: str
    aggregate: UserAggregate = field(compare=False)

    def fields(self, schema: pa.Schema) -> list[pa.Field]:
        kinds = [schema.field(column).type for column in self.columns]
        return [COUNT, STATE, *(pa.field(f"value{place}", kind) for place, kind in enumerate(kinds))]

    def state(self, name: str, schema: pa.Schema, keys: int) -> StateSpec:
        kept = pa.schema([schema.field(index) for index in range(keys + 2)])
        return StateSpec(name, kept, tuple(range(keys)))

    def combine(
        self, rows: pa.RecordBatch, weights: Weights, groups: Groups
    ) -> tuple[Integers, list[pa.Array], Weights]:
        group, values, amounts = Values(self.chosen, self.columns).combine(rows, weights, groups)
        merged = self._merged(group, values, amounts, len(groups)) if self.aggregate.merges else {}
        alone = np.flatnonzero(~np.isin(group, list(merged)))
        states = [
            pa.array([count for count, _ in merged.values()], COUNT.type),
            pa.array([state for _, state in merged.values()], STATE.type),
            *(pa.nulls(len(merged), value.type) for value in values),
        ]
        single = [pa.nulls(len(alone), COUNT.type), pa.nulls(len(alone), STATE.type)]
        single += [value.take(pa.array(alone)) for value in values]
        return (
            np.append(group[alone], np.array(list(merged), np.int64)),
            [pa.concat_arrays(pair) for pair in zip(single, states, strict=True)],
            np.append(amounts[alone], np.ones(len(merged), np.int64)),
        )

    def _merged(
        self, group: Integers, values: Sequence[pa.Array], amounts: Weights, count: int
    ) -> dict[int, tuple[int, bytes]]:
        """Of groups to which rows are added, several and nothing but added: how many, and their state."""
        user, found = self.aggregate, {}
        sizes = np.bincount(group, minlength=count)
        sizes[group[amounts < 0]] = 0
        picked = np.flatnonzero(sizes[group] > 1)
        rows = user.rows([value.take(pa.array(picked)) for value in values])
        for members in runs(group[picked]):
            pairs = [(rows[at], int(amounts[picked[at]])) for at in members]
            state = user.advance("add", user.zero(), pairs)
            found[int(group[picked[members[0]]])] = sum(times for _, times in pairs), user.written(state)
        return found

    def fold(self, change: ZSet, spine: Any) -> ZSet:
        """How the kept states change. All that is added comes before anything is taken back."""
        keys = tuple(range(change.rows.num_columns - 2 - len(self.columns)))
        groups = group_rows(change.rows, keys)
        touched = Touched(pick(take_rows(change.rows, groups.first), keys), groups.hashes)
        old = held(spine, touched, before=False)
        counts, states, *values = change.rows.columns[len(keys) :]
        counts, states, weights = counts.to_pylist(), states.to_pylist(), change.weights.tolist()
        rows = self.aggregate.rows(values)
        kept: list[tuple[int, int, bytes]] = []
        for number, members in enumerate(np.split(groups.order, groups.starts[1:])):
            count, state = self._known(old.get(number))
            for at in members:
                if states[at] is not None:
                    count += counts[at] * weights[at]
                    for _ in range(weights[at]):
                        state = self.aggregate.merge(state, self.aggregate.read(states[at]))
            plain = [at for at in members.tolist() if states[at] is None]
            count += sum(weights[at] for at in plain)
            added = ((rows[at], weights[at]) for at in plain if weights[at] > 0)
            state = self.aggregate.advance("add", state, added)
            gone = ((rows[at], -weights[at]) for at in plain if weights[at] < 0)
            state = self.aggregate.advance("retract", state, gone) if count else None
            if count:
                kept.append((number, count, self.aggregate.written(state)))
        before = [(number, count, state) for number, (count, state) in old.items()]
        schema = pa.schema([*touched.keys.schema, COUNT, STATE])
        return concat([_states(touched, before, -1, schema), _states(touched, kept, 1, schema)], schema)

    def _known(self, kept: tuple[int, bytes] | None) -> tuple[int, Any]:
        return (0, self.aggregate.zero()) if kept is None else (kept[0], self.aggregate.read(kept[1]))


def held(spine: Any, groups: Touched, *, before: bool) -> dict[int, tuple[int, bytes]]:
    """What is kept of those groups that are there: how many rows, and the state."""
    matches = spine.lookup(groups.keys, groups.hashes, before=before)
    columns = [pa.array(matches.probe), *matches.found.rows.columns[groups.keys.num_columns :]]
    there = consolidate(ZSet(pa.record_batch(columns, ["group", "rows", "state"]), matches.found.weights))
    numbers, counts, states = (column.to_pylist() for column in there.rows.columns)
    return dict(zip(numbers, zip(counts, states, strict=True), strict=True))


def _states(groups: Touched, rows: list[tuple[int, int, bytes]], weight: int, schema: pa.Schema) -> ZSet:
    place = np.array([number for number, _, _ in rows], np.int64)
    columns = [
        *take_rows(groups.keys, place).columns,
        pa.array([count for _, count, _ in rows], COUNT.type),
        pa.array([state for _, _, state in rows], STATE.type),
    ]
    return ZSet.of(batch(columns, schema, len(rows)), weight)


def runs(numbers: Integers) -> Iterator[Indices]:
    """The places of each number, one number after the other."""
    if len(numbers):
        order = np.argsort(numbers, kind="stable")
        yield from np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)


@dataclass(frozen=True, slots=True)
class Kept(Looked):
    """The state of each group, None where there is none."""

    def read(self, spine: Any, groups: Touched, *, before: bool) -> list[bytes | None]:
        found = held(spine, groups, before=before)
        return [found[number][1] if number in found else None for number in range(len(groups))]


class Stateful(Function):
    def __init__(self, call: AggregateCall, arguments: Sequence[pa.Field]) -> None:
        super().__init__(call, arguments)
        code = call.options["code"]
        self.aggregate: UserAggregate = unpacked(code)
        self.measures = (Kept(States(Chosen((), call.filter), call.columns, code, self.aggregate)),)

    of_nothing = False  # as in Spark, which calls no function for no rows

    @classmethod
    def takes(cls, *kinds: pa.DataType) -> bool:
        return len(kinds) > 0

    def value(self, *found: Any) -> pa.Array:
        user = self.aggregate
        states = (user.zero() if state is None else user.read(state) for state in found[0])
        return converted([user.finish(state) for state in states], self.type, user.name)
