"""The library as its users have it: `tidemill.Pipeline` on a Spark session and a folder."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import tidemill
from e2e.auctions import AUCTIONS, BIDS, SCRIPT, answers, expected, rows
from tidemill.api.pipeline import Pipeline, RuntimeName
from tidemill.pipeline.errors import (
    AlreadyOpen,
    ForeignState,
    NameTaken,
    NoSuchName,
    NotOpen,
    Place,
    Refused,
    WrongSettings,
)

pytestmark = pytest.mark.timeout(180)


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, str(before))


# Opening and closing


def test_the_library_as_its_description_shows_it(spark: SparkSession, folder: Path) -> None:
    with tidemill.Pipeline(spark, folder) as p:
        p.sql("CREATE TABLE bids (auction BIGINT, price BIGINT)")
        p.sql("CREATE VIEW top AS SELECT auction, max(price) m FROM bids GROUP BY auction")
        p.view("cheap", p.table("bids").where("price < 10"))
        p.insert("bids", pd.DataFrame({"auction": [1, 1, 2], "price": [5, 50, 7]}))
        record = p.step()
        p.delete("bids", pd.DataFrame({"auction": [1], "price": [50]}))
        p.step()
        top, cheap = p.view("top").to_pandas(), p.view("cheap").to_spark().collect()
        changes = p.changes("top", since=record.number).to_pandas()

    assert (record.number, record.rows_in, record.runtime) == (0, 3, "batch")
    assert record.seconds > 0
    assert sorted(top.itertuples(index=False, name=None)) == [(1, 5), (2, 7)]
    assert sorted(map(tuple, cheap)) == [(1, 5), (2, 7)]
    assert sorted(changes.itertuples(index=False, name=None)) == [(1, 5, 1), (1, 50, -1)]
    assert list(changes.columns) == ["auction", "m", "_weight"]


def test_a_folder_opened_again_goes_on_where_it_was(
    spark: SparkSession, folder: Path, runtime: RuntimeName
) -> None:
    with Pipeline(spark, folder, runtime=runtime) as p:
        p.sql(SCRIPT)
        p.insert("auctions", AUCTIONS)
        p.insert("bids", BIDS[:10])
        p.step()
        p.insert("bids", BIDS[10:15])
    with Pipeline(spark, folder, runtime=runtime) as p:
        before = answers(p)
        p.insert("bids", BIDS[15:])
        record = p.step()
        after = answers(p)
        names = (p.tables, p.views)

    assert before == expected(BIDS[:10])
    assert after == expected(BIDS)
    assert (record.number, record.rows_in) == (1, 10)
    assert names == (("auctions", "bids"), ("best", "by_category"))


def test_runtimes_take_turns_on_one_folder(spark: SparkSession, folder: Path) -> None:
    turns: list[RuntimeName] = ["inline", "batch", "inline"]
    for number, runtime in enumerate(turns):
        with Pipeline(spark, folder, runtime=runtime) as p:
            if not number:
                p.sql(SCRIPT)
                p.insert("auctions", AUCTIONS)
            p.insert("bids", BIDS[number * 5 : number * 5 + 5])
            p.step()
            found = answers(p)

            assert found == expected(BIDS[: number * 5 + 5])


def test_another_number_of_workers_gives_the_same_answers_and_moves_no_state(
    spark: SparkSession, folder: Path
) -> None:
    taken = 0
    for number, workers in enumerate([2, 3, 1, 2]):
        before = state_files(folder)
        with Pipeline(spark, folder, runtime="inline", workers=workers) as p:
            if not number:
                p.sql(SCRIPT)
                p.insert("auctions", AUCTIONS)
            as_left = answers(p)
            opened = state_files(folder)
            taken += 5
            p.insert("bids", BIDS[taken - 5 : taken])
            p.step()
            found = answers(p)
            stepped = state_files(folder)

        if number:
            assert opened == before
            assert stepped.items() >= before.items()
            assert as_left == expected(BIDS[: taken - 5])
        assert found == expected(BIDS[:taken])


def state_files(folder: Path) -> dict[str, int]:
    """The files of log and state, each with the time of its last change."""
    files = [path for path in (folder / "blobs").rglob("*") if path.is_file()]
    return {str(path): path.stat().st_mtime_ns for path in files}


def test_settings_that_change_answers_must_be_those_of_the_first_time(
    spark: SparkSession, folder: Path, pipeline: Pipeline
) -> None:
    pipeline.close()
    for name, value in {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.sql.caseSensitive": "true",
    }.items():
        with setting(spark, name, value), pytest.raises(WrongSettings, match=f"{name}.*{value}"):
            Pipeline(spark, folder, runtime="inline")

    with Pipeline(spark, folder, runtime="inline") as again:
        assert again.views == ("best", "by_category")


def test_a_folder_that_is_open_is_refused_with_who_has_it(
    spark: SparkSession, folder: Path, pipeline: Pipeline
) -> None:
    with pytest.raises(AlreadyOpen, match="this process"):
        Pipeline(spark, folder, runtime="inline")

    pipeline.close()
    Pipeline(spark, folder, runtime="inline").close()


def test_a_folder_that_another_process_has_is_refused_with_its_number(
    spark: SparkSession, folder: Path
) -> None:
    folder.mkdir()
    program = (
        "import sys; from pathlib import Path; from tidemill.pipeline.log.folder import FolderLock\n"
        "with FolderLock(Path(sys.argv[1])): print('mine', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        assert other.stdin
        assert other.stdout.readline() == "mine\n"
        with pytest.raises(AlreadyOpen, match=f"process {other.pid}"):
            Pipeline(spark, folder, runtime="inline")
        other.stdin.close()


def test_a_folder_with_other_content_is_refused_and_left_alone(spark: SparkSession, folder: Path) -> None:
    folder.mkdir()
    (folder / "thesis.txt").write_text("do not touch")

    with pytest.raises(ForeignState, match=r"thesis\.txt"):
        Pipeline(spark, folder, runtime="inline")
    with pytest.raises(ForeignState, match="a file"):
        Pipeline(spark, folder / "thesis.txt", runtime="inline")
    assert [path.name for path in folder.iterdir()] == ["thesis.txt"]


def test_a_connect_session_is_refused_by_name(folder: Path) -> None:
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()

    with pytest.raises(Refused, match="Spark Connect"):
        Pipeline(remote, folder)
    assert not folder.exists()


def test_a_closed_pipeline_does_nothing_but_say_so(pipeline: Pipeline) -> None:
    pipeline.close()
    pipeline.close()

    for act in (
        pipeline.step,
        pipeline.pending,
        pipeline.checkpoint,
        lambda: pipeline.view("best"),
        lambda: pipeline.changes("best", since=0),
        lambda: pipeline.insert("bids", BIDS),
        lambda: pipeline.sql("CREATE TABLE x (a INT)"),
        lambda: pipeline.discard(0),
    ):
        with pytest.raises(NotOpen):
            act()


# Tables and views


def test_a_view_by_a_frame_is_as_good_as_one_by_sql(pipeline: Pipeline) -> None:
    joined = pipeline.table("bids").join(pipeline.table("auctions"), sf.expr("auction = id"))
    pipeline.view("framed", joined.groupBy("category").agg(sf.sum("price").alias("total")))
    pipeline.insert("auctions", AUCTIONS)
    pipeline.insert("bids", BIDS)
    pipeline.step()

    assert rows(pipeline, "framed") == rows(pipeline, "by_category") == expected(BIDS)["by_category"]


def test_a_late_view_is_filled_by_the_next_step(pipeline: Pipeline) -> None:
    pipeline.insert("bids", BIDS)
    before = pipeline.step().number
    pipeline.sql("CREATE VIEW dear AS SELECT auction, price FROM bids WHERE price > 15")
    empty = rows(pipeline, "dear")
    pipeline.sql("CREATE VIEW dearest AS SELECT max(price) AS m FROM dear")
    pipeline.step()

    assert not empty
    assert rows(pipeline, "dear") == Counter((n % 4, n) for n in range(16, 20))
    assert rows(pipeline, "dearest") == Counter({(19,): 1})
    assert len(list(pipeline.changes("dear", since=before))) == 4


def test_names_are_taken_once(pipeline: Pipeline) -> None:
    for statement in (
        "CREATE TABLE bids (a INT)",
        "CREATE TABLE best (a INT)",
        "CREATE VIEW best AS SELECT * FROM bids",
        "CREATE VIEW bids AS SELECT * FROM auctions",
    ):
        with pytest.raises(NameTaken):
            pipeline.sql(statement)
    with pytest.raises(NameTaken):
        pipeline.view("best", pipeline.table("bids"))
    pipeline.sql("CREATE TABLE IF NOT EXISTS bids (a INT)")

    assert (pipeline.tables, pipeline.views) == (("auctions", "bids"), ("best", "by_category"))


def test_names_that_are_not_there_are_told_with_those_that_are(pipeline: Pipeline) -> None:
    unknown: tuple[Callable[[], object], ...] = (
        lambda: pipeline.view("worst"),
        lambda: pipeline.table("worst"),
        lambda: pipeline.insert("worst", BIDS),
        lambda: pipeline.changes("worst", since=0),
    )
    for act in unknown:
        with pytest.raises(NoSuchName, match=r"worst.*bids"):
            act()
    misused: tuple[Callable[[], object], ...] = (
        lambda: pipeline.insert("best", BIDS),
        lambda: pipeline.drop("worst"),
        lambda: pipeline.sql("DROP VIEW bids"),
    )
    for act in misused:
        with pytest.raises(NoSuchName):
            act()


def test_what_is_used_by_others_cannot_be_dropped(pipeline: Pipeline) -> None:
    pipeline.sql("CREATE VIEW top AS SELECT max(m) AS m FROM best")
    pipeline.insert("auctions", AUCTIONS)
    pipeline.insert("bids", BIDS)
    pipeline.step()
    with pytest.raises(Refused, match="best is used by top"):
        pipeline.drop("best")
    with pytest.raises(Refused, match="bids is used by"):
        pipeline.drop("bids")
    pipeline.drop("top")
    pipeline.drop("best")
    pipeline.insert("bids", BIDS)
    pipeline.step()

    assert pipeline.views == ("by_category",)
    assert rows(pipeline, "by_category") == expected(BIDS + BIDS)["by_category"]


def test_a_table_of_a_dropped_name_starts_empty(pipeline: Pipeline) -> None:
    pipeline.insert("bids", BIDS)
    pipeline.step()
    for name in ("best", "by_category", "bids"):
        pipeline.drop(name)
    pipeline.sql("CREATE TABLE bids (auction BIGINT, price BIGINT)")
    pipeline.sql(
        "CREATE VIEW best AS SELECT auction, max(price) AS m, count(*) AS n FROM bids GROUP BY auction"
    )
    pipeline.insert("bids", BIDS[:3])
    pipeline.step()

    assert rows(pipeline, "bids") == Counter({(0, 0): 1, (1, 1): 1, (2, 2): 1})
    assert rows(pipeline, "best") == expected(BIDS[:3])["best"]


def test_of_a_script_that_is_refused_nothing_takes_effect(pipeline: Pipeline) -> None:
    frame = pipeline.table("bids")
    script = "DROP VIEW by_category;\nCREATE TABLE x (a INT);\nCREATE VIEW v AS\n SELECT rand() AS r FROM x"
    with pytest.raises(Refused) as refused:
        pipeline.sql(script, file="auctions.sql")

    assert str(refused.value).startswith("auctions.sql:4:9: view v: rand() gives another value")
    assert (refused.value.file, refused.value.place) == ("auctions.sql", Place(4, 9))
    assert (pipeline.tables, pipeline.views) == (("auctions", "bids"), ("best", "by_category"))
    pipeline.view("cheap", frame.where("price < 3"))  # what was made of the tables before is still good


def test_a_script_may_take_away_and_make_anew(pipeline: Pipeline) -> None:
    pipeline.insert("auctions", AUCTIONS)
    pipeline.insert("bids", BIDS)
    pipeline.step()
    before = answers(pipeline)
    views = SCRIPT[SCRIPT.index("CREATE VIEW") :].rstrip().removesuffix(";")
    other = "CREATE VIEW other AS SELECT price FROM bids"
    pipeline.sql(f"DROP VIEW by_category; DROP VIEW best; {other}; {views}; DROP VIEW other")
    assert answers(pipeline) != before
    pipeline.step()

    assert answers(pipeline) == before


def test_explain_names_each_operator_with_its_cost(pipeline: Pipeline) -> None:
    lines = pipeline.explain().splitlines()

    assert all("O(change" in line or line.startswith("      from ") for line in lines)
    for part in ("table bids", "primary key (id)", "Join", "Aggregate", "view by_category", "keeps its rows"):
        assert any(part in line for line in lines)


def test_a_frame_shows_its_step_whatever_comes(pipeline: Pipeline) -> None:
    pipeline.insert("bids", BIDS[:5])
    pipeline.step()
    frame, held = pipeline.view("best").to_spark(), pipeline.view("best")
    pipeline.insert("bids", BIDS[5:])
    pipeline.step()

    assert Counter(map(tuple, frame.collect())) == expected(BIDS[:5])["best"]
    assert Counter(tuple(row.values()) for row in held) == expected(BIDS[:5])["best"]
    assert held.step == 0
