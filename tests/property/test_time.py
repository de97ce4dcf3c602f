"""Windows over time are at each step what Spark answers."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from property.event_tables import EVENTS, events
from property.judge import CASES, STEPS, WAYS, Judge

VIEWS = {
    "tumbling": """SELECT c, window, count(*) AS n, sum(v) AS v FROM e
        GROUP BY c, window(at, '10 minutes')""",
    "tumbling_wall": """SELECT c, k, window.start AS a, window.end AS b, max(v) AS v FROM e
        GROUP BY c, k, window(wall, '1 hour', '1 hour', '7 minutes')""",
    "hopping": """SELECT c, window.end AS b, count(v) AS n FROM e
        GROUP BY c, window(at, '10 minutes', '4 minutes', '-30 seconds')""",
    "hopping_wall": """SELECT c, k, window, min(at) AS a FROM e
        GROUP BY c, k, window(wall, '1 hour', '20 minutes')""",
    "windows_of_windows": """SELECT c, window(window_time(window), '1 hour') AS w, sum(n) AS n FROM
        (SELECT c, window, count(*) AS n FROM e GROUP BY c, window(at, '5 minutes'))
        GROUP BY c, window(window_time(window), '1 hour')""",
    "in_a_row": "SELECT c, v, window(at, '2 minutes') AS w, at + INTERVAL 90 SECONDS AS later FROM e",
    "moved": """SELECT c, at - INTERVAL 1 DAY AS a, wall + INTERVAL '3 04:05:06.000007' DAY TO SECOND AS b
        FROM e WHERE at + INTERVAL '0.000001' SECOND > TIMESTAMP '2024-03-10 00:10:00'""",
    "sessions": """SELECT c, k, session_window AS s, count(*) AS n, sum(v) AS v FROM e
        GROUP BY c, k, session_window(at, '5 minutes')""",
    "sessions_wall": """SELECT c, session_window.start AS a, session_window.end AS b, max(k) AS k FROM e
        GROUP BY c, session_window(wall, '1 minute')""",
    "session_spans": "SELECT c, session_window(at, '5 minutes') AS own FROM e WHERE v > 3",
    "distinct_sessions": """SELECT c, k, session_window.end AS b FROM e WHERE v > 2
        GROUP BY c, k, session_window(at, '3 minutes')""",
    "varying_sessions": """SELECT c, k, session_window.start AS a, session_window.end AS b, sum(v) AS v FROM e
        GROUP BY c, k, session_window(at, CASE WHEN v < 5 THEN '1 minute' WHEN v > 7 THEN '-1 minute'
            WHEN v = 5 THEN '12 minutes' ELSE '5 minutes' END)""",
    "days_of_sessions": """SELECT c, k, session_window.start AS a, count(*) AS n FROM e
        GROUP BY c, k, session_window(wall, '1 day')""",
    "no_sessions": """SELECT c, session_window AS s, count(*) AS n FROM e
        GROUP BY c, session_window(at, '0 seconds')""",
}
IN_SPARK = {
    "written_gaps": """SELECT c, k, session_window AS s, count(*) AS n FROM e
        GROUP BY c, k, session_window(at, gap)""",
}


@pytest.fixture(scope="module")
def judge(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    course = events(len(VIEWS), cases=CASES, steps=STEPS)
    return Judge(spark, tmp_path_factory.mktemp("time"), VIEWS, tables=[EVENTS], course=course)


@pytest.mark.parametrize("way", WAYS)
def test_windows_are_at_each_step_what_spark_answers(judge: Judge, way: str) -> None:
    assert not judge.wrong(way)


@pytest.mark.parametrize("way", ["batch", "batch late"])
def test_sessions_whose_gaps_only_spark_can_read_are_what_it_answers(
    spark: SparkSession, tmp_path: Path, way: str
) -> None:
    course = events(1, cases=CASES, steps=STEPS)

    judge = Judge(spark, tmp_path, IN_SPARK, tables=[EVENTS], course=course, planned_in="batch")
    assert not judge.wrong(way)
