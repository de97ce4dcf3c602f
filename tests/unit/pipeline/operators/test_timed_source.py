"""Late rows are dropped and counted, whatever they say."""

import numpy as np
import pyarrow as pa

from tidemill.pipeline.operators.operator import Access, Moment, Notes
from tidemill.pipeline.operators.registry import build
from tidemill.pipeline.plan.node import TimedSource
from tidemill.pipeline.testing import bag, rows_of, spark
from tidemill.pipeline.testing.spine import ModelSpine
from tidemill.pipeline.zset import ZSet

TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([pa.field("k", pa.int8(), nullable=False), ("at", TIME)])


class Table:
    """A source whose rows may be 10 us behind."""

    def __init__(self, key: tuple[int, ...]) -> None:
        node = TimedSource((), spark(SCHEMA), "t", key, (0,), 3, time=1, lateness_us=10)
        self.operator = build(node, [])
        self.spine = ModelSpine(self.operator.states()[0])
        self.highest: dict[str, int] = {}

    def step(self, *rows: tuple[int, int | None, int]) -> tuple[dict[tuple[int, int | None], int], int]:
        """The change, and how many rows were late."""
        columns = [
            pa.array([row[0] for row in rows], pa.int8()),
            pa.array([row[1] for row in rows], pa.int64()).view(TIME),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
        change = ZSet(batch, np.array([row[2] for row in rows], np.int64))
        notes = Notes()
        self.spine.next_round()
        access = Access([self.spine], [], False, True, Moment(0, 0.0, highest=self.highest), notes=notes)
        ((out,),) = [self.operator.step([(change,)], access)]
        numbers = out.rows.column(1).view(pa.int64()).to_pylist()
        found = zip(out.rows.column(0).to_pylist(), numbers, strict=True)
        self.highest = self.highest | notes.highest
        assert len(bag(rows_of(out))) == len(out)
        return dict(zip(found, map(int, out.weights), strict=True)), notes.late.get("t", 0)


def test_what_is_older_than_the_waterline_is_dropped_and_counted() -> None:
    table = Table(())

    assert table.step((1, 100, 1), (2, 5, 1)) == ({(1, 100): 1, (2, 5): 1}, 0), "nothing came before"
    assert table.highest == {"t#3": 100}
    assert table.step((1, 90, 1), (2, 89, 2), (2, 5, -1), (3, None, 1)) == ({(1, 90): 1, (3, None): 1}, 3)
    assert table.step((1, 90, -1)) == ({(1, 90): -1}, 0)


def test_a_key_whose_row_is_below_the_waterline_stays_as_it_is() -> None:
    table = Table((0,))
    table.step((1, 5, 1), (2, 100, 1))

    assert table.step((1, 100, 1), (2, 101, 1), (3, 7, 1)) == ({(2, 100): -1, (2, 101): 1}, 2)
    assert table.step((1, None, -1)) == ({}, 1)
    assert table.step((2, None, -1)) == ({(2, 101): -1}, 0)
