"""`tidemill.Pipeline` that makes its steps by itself, while threads append and views are added."""

import datetime as dt
import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from e2e.auctions import AUCTIONS, BIDS, SCRIPT, answers, expected, rows
from tidemill.api.pipeline import Pipeline, RuntimeName
from tidemill.pipeline.engine import Policy
from tidemill.pipeline.errors import NotNow, StepAborted

pytestmark = pytest.mark.timeout(180)

PATIENCE_S = 60.0


def test_it_makes_steps_while_threads_append(spark: SparkSession, folder: Path, runtime: RuntimeName) -> None:
    with Pipeline(spark, folder, runtime=runtime) as p:
        p.sql(SCRIPT)
        p.start()
        with pytest.raises(NotNow, match="pause"):
            p.step()
        threads = [
            threading.Thread(target=p.insert, args=("bids", BIDS[start::4]), daemon=True)
            for start in range(4)
        ]
        for thread in threads:
            thread.start()
        first = p.wait(offset=p.insert("auctions", AUCTIONS).offset, timeout_s=PATIENCE_S)
        for thread in threads:
            thread.join(PATIENCE_S)
        p.sql("CREATE VIEW dear AS SELECT * FROM bids WHERE price >= 18")
        version = p.checkpoint()
        stopped = p.stop()

        assert first.runtime == runtime
        assert answers(p) == expected(BIDS)
        assert rows(p, "dear") == {(2, 18): 1, (3, 19): 1}
        assert p.checkpoint() >= version
        assert p.step().number == stopped
    with Pipeline(spark, folder, runtime=runtime) as p:
        assert answers(p) == expected(BIDS)


def test_an_append_that_fails_is_waited_for_in_vain_and_can_be_discarded(pipeline: Pipeline) -> None:
    pipeline.start()
    bad = pipeline.delete("bids", BIDS[:1]).offset
    with pytest.raises(StepAborted) as aborted:
        pipeline.wait(offset=bad, timeout_s=PATIENCE_S)
    good = pipeline.insert("bids", BIDS).offset
    pipeline.discard(bad)
    record = pipeline.wait(offset=good, timeout_s=PATIENCE_S)

    assert aborted.value.offsets == (bad,)
    assert record.offsets == (good,)
    assert rows(pipeline, "best") == expected(BIDS)["best"]


def test_leaving_the_block_ends_the_run_with_a_version(spark: SparkSession, folder: Path) -> None:
    with Pipeline(spark, folder, runtime="inline") as p:
        p.sql(SCRIPT)
        p.start()
        step = p.wait(offset=p.insert("bids", BIDS).offset, timeout_s=PATIENCE_S).number
    with Pipeline(spark, folder, runtime="inline") as p:
        assert rows(p, "best") == expected(BIDS)["best"]
        assert p.step().number == step + 1


def test_rows_go_with_the_clock_while_nothing_is_appended(spark: SparkSession, folder: Path) -> None:
    with Pipeline(spark, folder, runtime="inline", policy=Policy(tick_s=0.05)) as p:
        p.sql("""CREATE TABLE t (at TIMESTAMP);
            CREATE VIEW recent AS SELECT at FROM t WHERE at > now() - INTERVAL 1 SECOND""")
        p.start()
        step = p.wait(offset=p.insert("t", [{"at": dt.datetime.now(dt.UTC)}]).offset, timeout_s=PATIENCE_S)
        deadline = time.monotonic() + PATIENCE_S
        number = step.number
        while rows(p, "recent") and time.monotonic() < deadline:
            number += 1
            p.wait(step=number, timeout_s=PATIENCE_S)

        assert not rows(p, "recent")
        assert number > step.number
