"""DISTINCT against a plain set."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.pipeline.plan.node import Arrange, Distinct
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.testing import Bag, Rows, bag, check, columns, feed, spark, streams


def present(rows: Rows) -> Bag:
    return Counter(row for row, weight in bag(rows).items() if weight > 0)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_each_row_that_is_there_comes_once(
    open_spine: Callable[[StateSpec], Any], data: st.DataObject
) -> None:
    schema = data.draw(columns())
    nodes = [feed(schema), Arrange((0,), spark(schema), key=(0,)), Distinct((1,), spark(schema))]

    check(nodes, data.draw(streams([schema])), present, open_spine=open_spine)
