"""Labels of shards."""

import numpy as np
import pyarrow as pa

from tidemill.pipeline.operators.label import labels
from tidemill.pipeline.plan.node import Label
from tidemill.pipeline.testing import Bench, feed, spark
from tidemill.pipeline.zset import SHARDS, ZSet, hash_rows, shard_of

ROWS = pa.schema([("x", pa.int64())])
LABELLED = spark(ROWS.append(pa.field("shard", pa.int32())))
CHANGE = ZSet(pa.record_batch([pa.array(range(500))], schema=ROWS), np.arange(500) - 250)


def test_each_label_belongs_to_its_shard() -> None:
    batch = pa.record_batch([pa.array(labels())], names=["label"])

    assert shard_of(hash_rows(batch)).tolist() == list(range(SHARDS))


def test_a_row_is_labelled_with_the_shard_of_its_key() -> None:
    out = Bench([feed(ROWS), Label((0,), LABELLED, (0,))]).step([CHANGE])

    assert out.rows.column(0) == CHANGE.rows.column(0)
    assert (shard_of(hash_rows(out.rows, [1])) == shard_of(hash_rows(CHANGE.rows))).all()
    assert (out.weights == CHANGE.weights).all()


def test_a_row_without_a_key_comes_once_for_each_shard() -> None:
    out = Bench([feed(ROWS), Label((0,), LABELLED, None)]).step([CHANGE])

    pairs = list(zip(out.rows.column(0).to_pylist(), out.rows.column(1).to_pylist(), strict=True))
    assert len(pairs) == len(set(pairs)) == 500 * SHARDS
    assert {label for _, label in pairs} == set(labels().tolist())
    assert (out.weights == out.rows.column(0).to_numpy() - 250).all()
