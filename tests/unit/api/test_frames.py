"""Frames of pandas as rows of a table: what fits is staged, what pandas has made of it is told."""

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from tidemill.api.frames import Staging
from tidemill.pipeline.errors import BadInput
from tidemill.pipeline.plan.node import Source
from tidemill.pipeline.types import schema_to_spark
from tidemill.store.blobs import open_blobs

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("x", pa.float64())])


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    table = Source((), schema_to_spark(SCHEMA), "t", (), (0, 1))
    return Staging(open_blobs(tmp_path, create=True), "p", table, 1, "UTC")


def test_integers_that_pandas_has_made_floats_are_refused_with_what_to_do(staging: Staging) -> None:
    frame = pd.DataFrame({"id": [1, None], "x": [1, 2]})
    with pytest.raises(BadInput) as error:
        staging.stage(frame)
    assert str(error.value) == (
        "table t: column id is bigint, not double, which pandas makes of integers beside NULLs: "
        'hand in frame.astype({"id": "Int64"})'
    )

    [staged] = staging.stage(frame.astype({"id": "Int64"}))
    assert staged.rows == 2
