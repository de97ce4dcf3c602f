"""Our sessions are tuned and stay so; sessions of others are advised on, or refused by name."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tidemill.pipeline.errors import Refused, SparkGone
from tidemill.pipeline.runtimes import session
from tidemill.pipeline.runtimes.session import (
    TUNED,
    Advice,
    advise,
    check_session,
    create_session,
    is_local,
    own_session,
    spark_there,
    tuned_for,
)

# What decides over answers, with Spark's own defaults.
ANSWERS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
}


def test_spark_knows_every_setting_that_is_tuned(spark: SparkSession) -> None:
    """It ignores one that is misspelt."""
    local = session._local_settings("local[2]").keys() - {"spark.local.dir"}  # which Spark does not declare
    assert {name for name in TUNED.keys() | local if session._entry(spark, name) is None} == set()


def test_a_setting_that_spark_does_not_know_can_be_told(spark: SparkSession) -> None:
    assert session._entry(spark, "spark.sql.adaptive.enable") is None


def test_our_session_has_the_tuning_and_needs_no_advice(spark: SparkSession) -> None:
    assert {name: spark.conf.get(name) for name in TUNED} == TUNED
    assert advise(spark) == []


def test_our_session_leaves_alone_what_decides_over_answers(spark: SparkSession) -> None:
    assert {name: spark.conf.get(name) for name in ANSWERS} == ANSWERS
    assert ANSWERS.keys() & TUNED.keys() == set()


def test_our_session_listens_on_loopback_alone(spark: SparkSession) -> None:
    assert {spark.conf.get(f"spark.driver.{name}") for name in ("host", "bindAddress")} == {"127.0.0.1"}


def test_tasks_find_everything_loaded_and_frozen_and_no_thread(spark: SparkSession) -> None:
    [row] = spark.range(1).mapInArrow(inside_a_task, "loaded boolean, frozen long, threads long").collect()

    assert row.loaded
    assert row.frozen > 50_000
    assert row.threads == 1


def inside_a_task(batches: Any) -> Any:
    import gc
    import sys

    for _ in batches:
        threads = len(list(Path("/proc/self/task").iterdir())) if sys.platform == "linux" else 1
        loaded = {"numpy", "pandas", "pyarrow.compute"} <= sys.modules.keys()
        yield pa.RecordBatch.from_pylist(
            [{"loaded": loaded, "frozen": gc.get_freeze_count(), "threads": threads}]
        )


def test_advice_names_what_differs_and_what_it_costs(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    try:
        [advice] = advise(spark)
        assert spark.conf.get("spark.sql.adaptive.enabled") == "true"
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", "false")

    assert advice == Advice("spark.sql.adaptive.enabled", "true", "false", advice.cost)
    assert "stage" in advice.cost


@pytest.mark.parametrize(
    ("name", "value", "good"),
    [
        ("spark.locality.wait", "0", True),
        ("spark.locality.wait", "3s", False),
        ("spark.shuffle.compress", "false", True),
        ("spark.driver.extraJavaOptions", "-Dx=1 -XX:TieredStopAtLevel=1 -XX:+UseParallelGC", True),
        ("spark.driver.extraJavaOptions", "-XX:+UseParallelGC", False),
        ("spark.python.daemon.module", "<undefined>", False),
    ],
)
def test_values_count_by_what_they_mean(spark: SparkSession, name: str, value: str, good: bool) -> None:
    assert session._as_good(spark, name, value, TUNED[name]) is good


def test_another_python_for_the_tasks_is_advised_against(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/elsewhere/bin/python3")

    assert [advice.setting for advice in advise(spark)] == ["PYSPARK_PYTHON"]


def test_a_second_session_is_refused_since_spark_would_return_the_first(spark: SparkSession) -> None:
    with pytest.raises(Refused, match="already"):
        create_session()


def test_a_session_of_ours_serves_all_pipelines_that_bring_none(spark: SparkSession) -> None:
    assert own_session() is spark


def test_a_session_of_somebody_else_is_not_taken(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_OURS", "spark.of.somebody.else")

    with pytest.raises(Refused, match="already"):
        own_session()


@pytest.mark.parametrize("error", [ConnectionRefusedError("refused"), Py4JError("cut")])
def test_that_spark_has_ended_is_told_with_what_was_under_way(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", None)

    with pytest.raises(SparkGone, match=r"^step 3: Spark is gone \((refused|cut)\): open .* new process"):
        with spark_there("step 3"):
            raise error


def test_an_error_of_a_spark_that_answers_is_left_alone(spark: SparkSession) -> None:
    with pytest.raises(Py4JError, match="another"), spark_there("step 3"):
        raise Py4JError("another")


def test_a_classic_session_passes(spark: SparkSession) -> None:
    check_session(spark)


def test_a_connect_session_is_refused_by_name() -> None:
    class SparkSession:
        __module__ = "pyspark.sql.connect.session"

    with pytest.raises(Refused, match="Spark Connect"):
        check_session(SparkSession())


def test_a_stopped_session_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "_jsc", None)

    with pytest.raises(Refused, match="stopped"):
        check_session(spark)


def test_what_is_no_session_is_refused() -> None:
    with pytest.raises(Refused, match="str"):
        check_session("local[2]")


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[2]", True),
        ("local[*]", True),
        ("local[2,4]", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://host:7077", False),
        ("yarn", False),
    ],
)
def test_a_cluster_is_told_from_this_machine(master: str, local: bool) -> None:
    assert is_local(master) is local


def test_a_cluster_keeps_its_own_daemon_and_addresses() -> None:
    master = "spark://host:7077"

    assert TUNED.keys() - tuned_for(master).keys() == {"spark.python.daemon.module"}
    assert session._local_settings(master) == {}


def test_there_are_as_many_shuffle_partitions_as_local_threads() -> None:
    assert session._local_settings("local[3]")["spark.sql.shuffle.partitions"] == "3"


def test_a_memory_disk_is_used_only_with_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_MEMORY_DISK", tmp_path)
    monkeypatch.setattr(session, "_ROOM_BYTES", 1)
    assert session._local_settings("local[*]")["spark.local.dir"] == str(tmp_path)

    monkeypatch.setattr(session, "_ROOM_BYTES", 1 << 60)
    assert "spark.local.dir" not in session._local_settings("local[*]")

    monkeypatch.setattr(session, "_MEMORY_DISK", tmp_path / "absent")
    assert "spark.local.dir" not in session._local_settings("local[*]")
