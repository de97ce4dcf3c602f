"""Aggregates that need all values of a group, and pivots, as Spark computes them.

Where Spark leaves the order of values to chance, it is asked for what our fixed order stands for.
"""

import zlib
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import pandas_udf

from property.judge import WAYS, Judge
from tidemill.api.aggregates import register_aggregate

pytestmark = pytest.mark.long

FROM = "FROM t GROUP BY c, k"
VIEWS = {
    "lists": f"SELECT c, k, collect_list(i) a, array_agg(f) b, collect_list(st) d, collect_list(a) e {FROM}",
    "all_lists": f"SELECT c, k, collect_list(s) RESPECT NULLS a, collect_list(w) RESPECT NULLS b {FROM}",
    "some_lists": f"""SELECT c, k, collect_list(i) FILTER (WHERE b) a,
        collect_list(dt) FILTER (WHERE f > 3) b {FROM}""",
    "sets": f"SELECT c, k, collect_set(f) a, collect_set(bin) b, collect_set(st) d, collect_set(ts) e {FROM}",
    "distinct_list": f"SELECT c, k, collect_list(DISTINCT i) a, count(*) b, median(l) d {FROM}",
    "maps": "SELECT c, size(collect_list(m)) n FROM t GROUP BY c",
    "joined": f"""SELECT c, k, listagg(s, ', ') WITHIN GROUP (ORDER BY s) a,
        listagg(s, '|') WITHIN GROUP (ORDER BY s DESC) b, string_agg(bin) WITHIN GROUP (ORDER BY bin) d,
        listagg(s) WITHIN GROUP (ORDER BY i NULLS LAST, f DESC NULLS FIRST, s) e {FROM}""",
    "joined_by_chance": f"SELECT c, k, listagg(s, ', ') a, string_agg(bin, X'00') FILTER (WHERE b) b {FROM}",
    "joined_once": f"SELECT c, k, listagg(DISTINCT s, '-') WITHIN GROUP (ORDER BY s DESC) a {FROM}",
    "percentiles": f"""SELECT c, k, percentile(i, 0.3) a, percentile(f, array(0.0, 0.25, 0.9)) b,
        percentile(d, 0.5) d, percentile(w, 0.77) e, median(r) g, median(y) h {FROM}""",
    "weighted": f"SELECT c, k, percentile(f, 0.6, abs(int(h))) a, percentile(l, array(0.5), 3) b {FROM}",
    "percentiles_within": f"""SELECT c, k, percentile_cont(0.25) WITHIN GROUP (ORDER BY i DESC) a,
        percentile_disc(0.25) WITHIN GROUP (ORDER BY f) b,
        percentile_disc(0.6) WITHIN GROUP (ORDER BY l DESC) d,
        percentile_disc(array(0.1, 1.0)) WITHIN GROUP (ORDER BY r) FILTER (WHERE b) e {FROM}""",
    "distinct_percentile": f"SELECT c, k, percentile(DISTINCT i, 0.4) a {FROM}",
    "modes": f"""SELECT c, k, mode(i, true) a, mode() WITHIN GROUP (ORDER BY s DESC) b,
        mode() WITHIN GROUP (ORDER BY f) d, mode(st, true) e {FROM}""",
    "any_mode": f"SELECT c, k, mode(s) a, mode(d) FILTER (WHERE b) b {FROM}",
    "firsts": f"SELECT c, k, first(i) a, first(f) b, last(i) d, any_value(s) e {FROM}",
    "firsts_there": f"""SELECT c, k, first(i, true) a, last(f) IGNORE NULLS b,
        first(s) FILTER (WHERE b) d {FROM}""",
    "over_all": "SELECT collect_list(v) a, median(f) b, mode(v, true) d, listagg(id, '') b2 FROM p",
    "mixed": f"SELECT c, k, count(*) n, sum(l) s, min(i) a, max(i) b, median(i) d, collect_set(i) e {FROM}",
    "checksums": f"SELECT c, k, checksum(i, l, s, d, w, b, dt, ts, tn, bin, a) a, checksum(s, a) b {FROM}",
    "checksums_anew": f"SELECT c, k, checksum_anew(i, l, s, d, w, b, dt, ts, tn, bin, a) a {FROM}",
    "checksums_mixed": "SELECT c, k, checksum_mixed(id, v) + 1 a, checksum_anew(v) b FROM p GROUP BY c, k",
    "checksum_of_all": "SELECT checksum(id, v) a FROM p WHERE v > 3",
    "user_pandas": f"SELECT c, k, distinct_days(dt, s) a {FROM}",
    "pivot_sum": """SELECT * FROM (SELECT c, k, s, l FROM u)
        PIVOT (sum(l) FOR s IN ('a', 'A' AS x, '日本', NULL AS n))""",
    "pivot_two": """SELECT * FROM (SELECT c, k, i, f FROM u)
        PIVOT (count(*) AS n, max(f) AS m FOR i IN (1, 2, -5 AS minus))""",
    "pivot_all": """SELECT * FROM (SELECT c, s, b, d, k FROM t)
        PIVOT (sum(d) AS s, avg(d) AS a FOR (s, b) IN (('a', true) AS x, ('hot', false) AS y))""",
    "pivot_lists": """SELECT * FROM (SELECT c, k, b, i, s FROM t)
        PIVOT (collect_set(i) AS i, max(s) AS s FOR b IN (true, false))""",
    "pivot_float": """SELECT * FROM (SELECT c, k, f, l FROM u)
        PIVOT (min(l) FOR f IN (0.0, double('NaN') AS nan, 0.1))""",
}
SORTED = {
    "lists": f"""SELECT c, k, sort_array(collect_list(i)) a, sort_array(array_agg(f)) b,
        sort_array(collect_list(st)) d, sort_array(collect_list(a)) e {FROM}""",
    "all_lists": f"""SELECT c, k, sort_array(collect_list(s) RESPECT NULLS) a,
        sort_array(collect_list(w) RESPECT NULLS) b {FROM}""",
    "some_lists": f"""SELECT c, k, sort_array(collect_list(i) FILTER (WHERE b)) a,
        sort_array(collect_list(dt) FILTER (WHERE f > 3)) b {FROM}""",
    "sets": f"""SELECT c, k, sort_array(collect_set(f)) a, sort_array(collect_set(bin)) b,
        sort_array(collect_set(st)) d, sort_array(collect_set(ts)) e {FROM}""",
    "distinct_list": f"SELECT c, k, sort_array(collect_list(DISTINCT i)) a, count(*) b, median(l) d {FROM}",
    "joined_by_chance": f"""SELECT c, k, listagg(s, ', ') WITHIN GROUP (ORDER BY s) a,
        string_agg(bin, X'00') WITHIN GROUP (ORDER BY bin) FILTER (WHERE b) b {FROM}""",
    "any_mode": f"SELECT c, k, mode(s, true) a, mode(d, true) FILTER (WHERE b) b {FROM}",
    "firsts": f"""SELECT c, k, min(struct(i, f, s)).i a, min(struct(i, f, s)).f b, max(struct(i, f, s)).i d,
        min(struct(i, f, s)).s e {FROM}""",
    "firsts_there": f"SELECT c, k, min(i) a, max(f) b, min(struct(s)) FILTER (WHERE b).s d {FROM}",
    "over_all": """SELECT sort_array(collect_list(v)) a, median(f) b, mode(v, true) d,
        listagg(id, '') WITHIN GROUP (ORDER BY id) b2 FROM p""",
    "mixed": f"""SELECT c, k, count(*) n, sum(l) s, min(i) a, max(i) b, median(i) d,
        sort_array(collect_set(i)) e {FROM}""",
    "pivot_lists": """SELECT c, k, sort_array(true_i) true_i, true_s, sort_array(false_i) false_i,
        false_s FROM (SELECT c, k, b, i, s FROM t)
        PIVOT (collect_set(i) AS i, max(s) AS s FOR b IN (true, false))""",
}


class Anew:
    """A sum over rows of what they show in Python: says whether Spark hands over the same values."""

    def zero(self) -> int:
        return 0

    def add(self, state: int, *values: Any) -> int:
        return state + zlib.crc32(repr(values).encode())

    def finish(self, state: int) -> int:
        return state


class Checksum(Anew):
    def retract(self, state: int, *values: Any) -> int:
        return state - zlib.crc32(repr(values).encode())


class Mixed(Checksum):
    def merge(self, some: int, more: int) -> int:
        return some + more


@pytest.fixture(scope="module")
def judge(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    register_aggregate(spark, "checksum", Checksum, "bigint", None)
    register_aggregate(spark, "checksum_anew", Anew(), "bigint", None)
    register_aggregate(spark, "checksum_mixed", Mixed, "bigint", "string, bigint")

    def distinct_days(day: pd.Series, word: pd.Series) -> int:
        return int(day.nunique()) * 1000 + int(word.notna().sum())

    over_pandas = pandas_udf(distinct_days, "bigint")  # type: ignore[call-overload]
    spark.udf.register("distinct_days", over_pandas)
    return Judge(spark, tmp_path_factory.mktemp("holistic"), VIEWS, oracle=SORTED)


@pytest.mark.parametrize("way", WAYS)
def test_holistic_views_are_at_each_step_what_spark_answers(judge: Judge, way: str) -> None:
    assert not judge.wrong(way)
