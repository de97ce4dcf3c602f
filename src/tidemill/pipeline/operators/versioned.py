"""Distinct and aggregates inside a loop: each group as often as there are iterations at which it changes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidemill.pipeline import types
from tidemill.pipeline.operators.aggregate import AggregateOperator, CombineOperator
from tidemill.pipeline.operators.distinct import DistinctOperator
from tidemill.pipeline.operators.operator import Access, Flow, Moment, Operator
from tidemill.pipeline.operators.rows import shaped
from tidemill.pipeline.plan.node import Aggregate, Combine, Distinct
from tidemill.pipeline.state.spec import Part, StateSpec
from tidemill.pipeline.state.spine import Spine
from tidemill.pipeline.zset import ZSet, concat, consolidate, group_rows, pick
from tidemill.pipeline.zset.value import Indices, batch, take_rows

_VERSION = pa.field("_version", pa.int64(), nullable=False)


@dataclass(frozen=True, slots=True, eq=False)
class Versions:
    """Groups at the iterations at which they change. A group's versions follow each other, in order.

    `iteration` is when each begins, `ends` when the next one does; that of the last is -1.
    """

    iteration: Indices
    ends: Indices


class Versioned(Operator):
    """Keeps its input by group, and puts out how the results of the touched groups changed.

    Of a group that changes at iterations i < j there are two versions: its rows up to i, and up to j. What
    the node makes of a version comes in with its iteration, and goes out with that of the next version.
    """

    node: Distinct | Aggregate
    cost = "O(rows of the touched groups)"

    def __init__(self, node: Distinct | Aggregate, source: pa.Schema) -> None:
        super().__init__(node, ())
        self.source = source
        self.keys = node.keys if isinstance(node, Aggregate) else tuple(range(len(source)))
        self.carried = pa.schema([*node.schema, pa.field("_iteration", pa.int64(), nullable=False)])

    def states(self) -> tuple[StateSpec, ...]:
        schema = pa.schema([*self.source, self.carried.field(len(self.carried) - 1)])
        return (StateSpec("", schema, self.keys),)

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:
        ((change,),) = inputs
        groups = group_rows(change.rows, self.keys)
        keys = pick(take_rows(change.rows, groups.first), self.keys)
        spine = access.own()
        old = self._results(spine.lookup(keys, groups.hashes).found)
        spine.add(change)
        new = self._results(spine.lookup(keys, groups.hashes).found)
        return (consolidate(concat([old.negate(), new], self.carried)),)

    def _results(self, rows: ZSet) -> ZSet:
        """What these groups, of which these are all rows, put out at which iteration."""
        rows = consolidate(rows)
        if not len(rows):
            return ZSet.empty(self.carried)
        versions, row, version = self._versions(rows)
        source = pick(take_rows(rows.rows, row), range(len(self.source)))
        found = self._evaluated(ZSet(source, rows.weights[row]), version)
        number = found.rows.column(0).to_numpy()
        values = pick(found.rows, range(1, found.rows.num_columns))
        starting = self._at(ZSet(values, found.weights), versions.iteration[number])
        ending = self._at(ZSet(values, -found.weights), versions.ends[number])
        return concat([starting, ending.filter(versions.ends[number] >= 0)], self.carried)

    def _versions(self, rows: ZSet) -> tuple[Versions, Indices, Indices]:
        """The versions of all groups, and which rows are in which of them."""
        group = group_rows(rows.rows, self.keys).number()
        iteration = rows.rows.column(len(self.source)).to_numpy()
        order = np.lexsort((iteration, group))
        begins = np.append(True, (np.diff(group[order]) != 0) | (np.diff(iteration[order]) != 0))
        first = order[begins]
        number = np.empty(len(rows), np.int64)
        number[order] = np.cumsum(begins) - 1
        last_of_group = np.searchsorted(group[first], group[first], "right") - 1
        following = np.append(iteration[first][1:], -1)
        ends = np.where(np.arange(len(first)) == last_of_group, -1, following)
        # A row is in the version of its iteration and in all later ones of its group.
        counts = last_of_group[number] - number + 1
        row = np.repeat(np.arange(len(rows)), counts)
        place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        return Versions(iteration[first], ends), row, number[row] + place

    def _evaluated(self, rows: ZSet, version: Indices) -> ZSet:
        """The node over each version by itself; the first column of the result says which."""
        width = len(self.source)
        schema = pa.schema([*self.source, _VERSION])
        change = ZSet(batch([*rows.rows.columns, pa.array(version)], schema, len(rows)), rows.weights)
        source = types.schema_to_spark(schema)
        if isinstance(self.node, Distinct):
            found = _alone(DistinctOperator(Distinct((), source), ()), (change,))
            return found.with_rows(pick(found.rows, [width, *range(width)]))
        keys, calls = (width, *self.keys), self.node.functions
        combine = CombineOperator(Combine((), source, keys, calls), ())
        result = types.schema_to_spark(pa.schema([_VERSION, *self.node.schema]))
        aggregate = AggregateOperator(Aggregate((), result, keys, calls, source), ())
        return _alone(aggregate, combine.step([(change,)], _access(combine)))

    def _at(self, values: ZSet, iteration: Indices) -> ZSet:
        columns = [*values.rows.columns, pa.array(iteration)]
        return values.with_rows(shaped(columns, self.carried, len(values)))


def _alone(operator: Operator, flow: Flow) -> ZSet:
    """What an operator that has no state yet makes of its first input."""
    (found,) = operator.step([flow], _access(operator))
    return found


def _access(operator: Operator) -> Access:
    """To a state in memory, which nobody keeps."""
    spines = [Spine(spec, Part()) for spec in operator.states()]
    return Access(spines, (), fresh=True, last_round=True, moment=Moment(0, 0.0))
