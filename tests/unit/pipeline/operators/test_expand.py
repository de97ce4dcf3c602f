"""Several rows of each row."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.pipeline.plan.expression import Column, Literal, column, literal
from tidemill.pipeline.plan.node import Arrange, Expand
from tidemill.pipeline.testing import bag, check, columns, feed, spark, streams


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_each_projection_of_each_row_is_there(data: st.DataObject) -> None:
    schema = data.draw(columns())
    whole = tuple(column(index, field.type) for index, field in enumerate(schema))
    first_alone: tuple[Column | Literal, ...] = (whole[0], *(literal(None, tree.type) for tree in whole[1:]))
    nodes = [
        feed(schema),
        Arrange((0,), spark(schema), key=(0,)),
        Expand((1,), spark(schema), (whole, first_alone)),
    ]

    check(
        nodes,
        data.draw(streams([schema])),
        lambda rows: bag(
            [*rows, *(((row[0], *(None for _ in row[1:])), weight) for row, weight in rows)],
        ),
    )
