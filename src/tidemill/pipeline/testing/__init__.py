"""What a test of an operator needs: random changes, an operator on a bench, and the law that it must keep.

    nodes = [feed(schema), Arrange((0,), spark_schema, key=(0,)), Distinct((1,), spark_schema)]

    @given(streams([schema]))
    def test_distinct(steps):
        check(nodes, steps, lambda rows: Counter(row for row, weight in bag(rows).items() if weight > 0))

Read `bags` (Z-sets as plain Python), `streams` (random ones, of every type), `spine` (the running sum in
plain Python), `bench` (runs a few nodes), `law` (`check`). It needs hypothesis, which a product does not.
"""

from tidemill.pipeline.testing.bags import Bag, Rows, bag, rows_of
from tidemill.pipeline.testing.bench import Bench, feed, spark
from tidemill.pipeline.testing.law import check
from tidemill.pipeline.testing.spine import ModelSpine
from tidemill.pipeline.testing.streams import VALUES, changes, columns, streams

__all__ = [
    "check",
    "Bench",
    "feed",
    "spark",
    "streams",
    "changes",
    "columns",
    "VALUES",
    "Bag",
    "Rows",
    "bag",
    "rows_of",
    "ModelSpine",
]
