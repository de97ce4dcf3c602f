"""Queries as frames: each is made of the tables of `coverage_tables`, which it gets by name."""

from collections.abc import Callable

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BooleanType, StringType

Tables = Callable[[str], DataFrame]
Query = Callable[[Tables], DataFrame]


is_odd = F.udf(lambda number: number is not None and number % 2 == 1, BooleanType())
in_capitals = F.udf(lambda text: None if text is None else text.upper(), StringType())


def doubled(frame: DataFrame) -> DataFrame:
    return frame.withColumn("i", F.col("i") * 2)


def ranked(tables: Tables) -> DataFrame:
    order = Window.partitionBy("k").orderBy(F.col("id").desc())
    return tables("p").select(
        "id", F.row_number().over(order).alias("n"), F.lag("l", 1).over(order).alias("a")
    )


def around(tables: Tables) -> DataFrame:
    near = Window.orderBy("id").rowsBetween(-1, Window.currentRow)
    return tables("p").withColumn("s", F.sum("l").over(near)).select("id", "s")


def itself(tables: Tables) -> DataFrame:
    one, other = tables("t").alias("one"), tables("t").alias("other")
    same = (F.col("one.k") == F.col("other.k")) & (F.col("one.i") < F.col("other.i"))
    return one.join(other, same).select("one.k", "one.i", F.col("other.i").alias("j"))


def near(tables: Tables) -> DataFrame:
    by_value = Window.partitionBy("k").orderBy("i").rangeBetween(-1, 2)
    return tables("t").select("k", "i", F.count("*").over(by_value).alias("n"))


def best(tables: Tables) -> DataFrame:
    """What QUALIFY says."""
    order = Window.partitionBy("k").orderBy(F.desc("l"), "id")
    numbered = tables("p").withColumn("n", F.row_number().over(order))
    return numbered.where("n <= 2").select("k", "id")


def twice(tables: Tables) -> DataFrame:
    """What WITH says."""
    sums = tables("t").groupBy("k").agg(F.sum("i").alias("n"))
    return sums.alias("x").join(sums.alias("y"), F.expr("x.n < y.n")).select("x.k", F.col("y.k").alias("j"))


def of_its_own(tables: Tables) -> DataFrame:
    """The rows of `u` that have the key of a row of `t`."""
    return tables("u").where(F.col("u.k") == F.col("t.k").outer())


def condition(tables: Tables) -> DataFrame:
    big = F.when(F.col("i") > 2, "big").when(F.col("i").isNull(), "none").otherwise(F.col("s"))
    return tables("t").select(
        big.alias("x"), F.col("i").between(1, 3).alias("y"), F.col("k").isin("a", "b").alias("z")
    )


QUERIES: dict[str, Query] = {
    "chosen": lambda t: t("t").select("k", F.col("i") + 1, F.expr("l * 2").alias("m")).toDF("k", "i", "m"),
    "by_text": lambda t: t("t").selectExpr("k", "i % 3 AS r").where("r > 0"),
    "filtered": lambda t: t("t").filter((F.col("i") > 1) & F.col("b")).select("k", "i"),
    "conditions": condition,
    "with_columns": lambda t: t("u").withColumns({"x": F.col("i") + 1, "y": F.upper("k")}).drop("s", "ts"),
    "renamed": lambda t: t("u").withColumnRenamed("i", "n").withColumnsRenamed({"l": "m"}).select("n", "m"),
    "grouped": lambda t: t("t").groupBy("k").agg(F.sum("i").alias("s"), F.countDistinct("l").alias("n")),
    "grouped_by_dict": lambda t: t("t").groupBy("k").agg({"i": "max", "*": "count"}).toDF("k", "n", "m"),
    "counted": lambda t: t("t").groupBy("k", "b").count(),
    "averaged": lambda t: t("t").groupBy("k").avg("i", "f").toDF("k", "i", "f"),
    "of_all": lambda t: t("t").agg(F.min("i").alias("i"), F.max("l").alias("l")),
    "rollup": lambda t: t("t").rollup("k", "b").agg(F.sum("i").alias("s"), F.grouping_id().alias("g")),
    "cube": lambda t: t("t").cube("k", "b").count(),
    "grouping_sets": lambda t: t("t").groupingSets([["k"], ["b"], []], "k", "b").agg(F.max("i").alias("m")),
    "pivoted": lambda t: t("t").groupBy("b").pivot("k", ["a", "c", "d"]).sum("i"),
    "pivoted_twice": lambda t: (
        t("t").groupBy("b").pivot("k", ["a"]).agg(F.sum("i").alias("s"), F.max("l").alias("m"))
    ),
    "melted": lambda t: t("u").melt(["k"], ["i", "l"], "name", "v"),
    "unpivoted": lambda t: t("u").select("i", "l").unpivot([], ["i", "l"], "name", "v"),
    "joined": lambda t: t("t").join(t("u"), "k").select("k", F.col("u.l")),
    "joined_left": lambda t: t("t").join(t("u"), ["k", "i"], "left").select("k", "i", F.col("u.l")),
    "joined_right": lambda t: t("t").join(t("u"), ["k"], "right").select("k", F.col("t.i"), F.col("u.l")),
    "joined_null_safe": lambda t: (
        t("t").join(t("u"), F.col("t.k").eqNullSafe(F.col("u.k")), "left").select("t.i", "u.l")
    ),
    "joined_full": lambda t: t("t").select("k", "i").join(t("p").select("k", "id"), "k", "full"),
    "joined_semi": lambda t: t("t").join(t("u"), "k", "left_semi").select("k", "i"),
    "joined_anti": lambda t: t("t").join(t("u"), ["k", "i"], "anti").select("k", "i"),
    "joined_by_condition": itself,
    "crossed": lambda t: t("p").select("id").crossJoin(t("u").select("i")),
    "hinted": lambda t: t("t").join(F.broadcast(t("p")), "k").select("k", "i", "id"),
    "hinted_merge": lambda t: t("t").join(t("p").hint("merge"), "k").select("k", "id"),
    "union": lambda t: t("t").select("k", "i").union(t("u").select("k", "i")),
    "union_by_name": lambda t: t("u").unionByName(t("p"), allowMissingColumns=True),
    "intersected": lambda t: t("t").select("k", "i").intersectAll(t("u").select("k", "i")),
    "intersected_once": lambda t: t("t").select("k", "i").intersect(t("u").select("k", "i")),
    "united_once": lambda t: t("t").select("k").union(t("u").select("k")).distinct(),
    "subtracted": lambda t: t("t").select("k").subtract(t("p").select("k")),
    "without": lambda t: t("t").select("k", "i").exceptAll(t("u").select("k", "i")),
    "distinct": lambda t: t("t").select("k", "b").distinct(),
    "without_duplicates": lambda t: t("t").select("k", "b").dropDuplicates(["k", "b"]),
    "one_of_each": lambda t: t("t").dropDuplicates(["k"]).select("k"),
    "without_nulls": lambda t: t("u").dropna(subset=["k", "i"]).select("k", "i"),
    "filled": lambda t: t("u").fillna({"i": 0, "k": "-"}).select("k", "i", "l"),
    "replaced": lambda t: t("u").replace({"a": "A", "b": None}, subset=["k"]).select("k", "i"),
    "ordered": lambda t: t("p").orderBy(F.desc_nulls_last("l"), "id").limit(3),
    "ordered_page": lambda t: t("p").orderBy("id").offset(2).limit(3).select("id"),
    "windowed": ranked,
    "windowed_rows": around,
    "windowed_by_value": near,
    "qualified": best,
    "named": twice,
    "having": lambda t: t("t").groupBy("k").agg(F.sum("i").alias("n")).where("n > 3"),
    "filtered_sums": lambda t: t("t").groupBy("k").agg(F.expr("sum(i) FILTER (WHERE b)").alias("n")),
    "exploded": lambda t: t("t").select("k", F.explode("a").alias("x")),
    "exploded_positions": lambda t: t("t").select("k", F.posexplode_outer("a").alias("n", "x")),
    "inlined": lambda t: t("t").select("k", F.inline(F.array("st"))),
    "stacked": lambda t: t("p").select(
        "k", F.stack(F.lit(2), F.lit("l"), "l", F.lit("id"), "l").alias("n", "v")
    ),
    "fields": lambda t: t("t").select(
        "st.*", F.col("m")["a"].alias("v"), F.col("st").getField("x").alias("f")
    ),
    "fields_dropped": lambda t: t("t").select(F.col("st").dropFields("y").alias("st"), "k"),
    "transformed": lambda t: t("u").select("k", "i").transform(doubled),
    "tumbling": lambda t: t("t").groupBy(F.window("ts", "30 minutes")).count(),
    "hopping": lambda t: t("t").groupBy("k", F.window("ts", "30 minutes", "10 minutes")).count(),
    "sessions": lambda t: (
        t("t").groupBy("k", F.session_window("ts", "10 minutes")).agg(F.count("*").alias("n"))
    ),
    "cast": lambda t: t("u").select(F.col("i").cast("string"), F.col("l").try_cast("int")),
    "described": lambda t: t("t").agg(
        F.stddev("i").alias("s"), F.corr("i", "l").alias("r"), F.median("l").alias("m")
    ),
    "filtered_in": lambda t: t("t").where(F.col("i").isin(t("p").select("id"))).select("k", "i"),
    "exists": lambda t: t("t").where(of_its_own(t).exists()).select("k"),
    "value": lambda t: t("t").select("k", t("p").select(F.max("id")).scalar().alias("top")),
    "value_of_its_own": lambda t: t("t").select("k", of_its_own(t).select(F.max("l")).scalar().alias("top")),
    "not_exists": lambda t: t("t").where(~of_its_own(t).exists()).select("k"),
    "exists_selected": lambda t: t("t").select("k", of_its_own(t).exists().alias("there")),
    "not_in": lambda t: t("t").where(~F.col("i").isin(t("p").select("id"))).select("k", "i"),
    "lateral": lambda t: t("t").lateralJoin(of_its_own(t).select(F.col("l").alias("x"))).select("t.k", "x"),
    "lateral_left": lambda t: (
        t("t").lateralJoin(of_its_own(t).select(F.max("l").alias("x")), how="left").select("t.k", "x")
    ),
    "to_schema": lambda t: t("p").to(t("p").select("k", F.col("id").cast("bigint").alias("id")).schema),
    "by_position": lambda t: t("p").select(*t("p").columns[:2]),
    "sampled_never": lambda t: t("u").where(F.lit(False)).select("k"),
    "repartitioned": lambda t: t("u").repartition(4, "k").coalesce(1).select("k", "i"),
}

IN_SPARK: dict[str, Query] = {
    "higher_order": lambda t: t("t").select(
        F.transform("a", lambda x: x + F.col("i")).alias("t"),
        F.filter("a", lambda x: x > 1).alias("f"),
        F.aggregate("a", F.lit(0), lambda s, x: s + x).alias("g"),
        F.map_filter("m", lambda k, v: v > 1).alias("m"),
    ),
    "functions": lambda t: t("t").select(F.md5("s").alias("x"), F.soundex("k").alias("y")),
    "grouped_by_function": lambda t: t("t").groupBy(F.soundex("s").alias("x")).agg(F.max("i").alias("m")),
    "user_functions": lambda t: t("t").where(is_odd("i")).select("k", in_capitals("s").alias("s")),
}
"""Those of which Spark computes a part."""
