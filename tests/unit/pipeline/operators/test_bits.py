"""Bits of integers against Python's own operators."""

from collections.abc import Callable
from functools import reduce
from operator import and_, or_, xor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.pipeline import types
from tidemill.pipeline.plan.node import AggregateCall
from tidemill.pipeline.testing import Bag, Rows, bag, check
from unit.pipeline.operators.aggregation import COLUMNS, PLACE, SCHEMA, aggregation, zset


@pytest.mark.parametrize("column", ["byte", "int", "long"])
@pytest.mark.parametrize(
    ("function", "combine"), [("BitAndAgg", and_), ("BitOrAgg", or_), ("BitXorAgg", xor)]
)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_bits_are_those_of_the_values(
    function: str, combine: Callable[[int, int], int], column: str, data: st.DataObject
) -> None:
    call = AggregateCall(function, PLACE[column], types.to_spark(SCHEMA.field(column).type))
    rows = st.lists(COLUMNS[column][1] | st.none(), max_size=4)
    kept, gone = data.draw(rows), data.draw(rows)
    steps = [(gone, 2), (kept, 1), (gone, -2), (kept, 2)]
    changes = [(zset([{column: one} for one in values], [weight] * len(values)),) for values, weight in steps]

    def model(held: Rows) -> Bag:
        values = [row[PLACE[column]] for row, weight in bag(held).items() for _ in range(weight)]
        there = [one for one in values if one is not None]
        return bag([((reduce(combine, there) if there else None,), 1)])

    check(aggregation([], [call]), changes, model, late=2)
