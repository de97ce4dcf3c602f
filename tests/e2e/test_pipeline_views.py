"""Views that are created and dropped while a pipeline has rows: what they share, keep and let go."""

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from property.judge import create, rows
from tidemill.api.pipeline import Pipeline, RuntimeName
from tidemill.pipeline.engine import Policy
from tidemill.pipeline.errors import NoSuchName, Refused
from tidemill.pipeline.plan.node import Arrange
from tidemill.pipeline.state.manifest import read_manifest

pytestmark = pytest.mark.timeout(180)

PATIENCE_S = 60.0

TABLES = """
CREATE TABLE people (id BIGINT PRIMARY KEY, city STRING);
CREATE TABLE bids (auction BIGINT, bidder BIGINT, price BIGINT, at TIMESTAMP, note STRING)
"""

# Of every operator that puts out nothing before all changes of a step have come.
OLDER = {
    "grouped": "SELECT bidder, sum(price) AS s, max(price) AS m FROM bids GROUP BY bidder",
    "collected": "SELECT auction, collect_list(price) AS l FROM bids GROUP BY auction",
    "told_apart": "SELECT DISTINCT bidder % 3 AS b FROM bids",
    "best": "SELECT * FROM bids QUALIFY row_number() OVER (PARTITION BY auction ORDER BY price DESC) = 1",
    "ranked": "SELECT auction, price, sum(price) OVER (PARTITION BY auction ORDER BY price) AS s FROM bids",
    "sessions": """SELECT session_window(at, '5 seconds').start AS s, bidder, count(*) AS n
        FROM bids GROUP BY session_window(at, '5 seconds'), bidder""",
    "strangers": "SELECT auction, city FROM bids LEFT JOIN people ON bidder = id",
    "dear": "SELECT auction FROM bids WHERE price > (SELECT avg(price) FROM bids)",
    "paired": """SELECT x.bidder, s, m FROM (SELECT bidder, sum(price) AS s FROM bids GROUP BY bidder) AS x
        JOIN (SELECT bidder, max(price) AS m FROM bids GROUP BY bidder) AS y ON x.bidder = y.bidder""",
    "reach": """WITH RECURSIVE r (a) AS (
        SELECT min(auction) FROM bids UNION ALL SELECT a + 1 FROM r WHERE a < 4) SELECT a FROM r""",
}


PEOPLE = [{"id": 0, "city": "Ulm"}, {"id": 1, "city": "Bonn"}, {"id": 2, "city": "Ulm"}]
NEW_YEAR = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def bids(numbers: range) -> list[dict[str, object]]:
    return [
        {
            "auction": number % 4,
            "bidder": number % 5,
            "price": number,
            "at": NEW_YEAR + dt.timedelta(seconds=number * 7 % 60),
            "note": f"{number:0500d}",
        }
        for number in numbers
    ]


# Filling


def test_a_late_view_has_what_an_older_one_has_with_what_waited(spark: SparkSession, folder: Path) -> None:
    """Whether it is made of that one, or of what they may share."""
    with Pipeline(spark, folder, runtime="inline") as p:
        p.sql(TABLES)
        create(p, OLDER)
        p.insert("people", PEOPLE)
        p.insert("bids", bids(range(20)))
        p.step()
        p.insert("bids", bids(range(20, 40)))
        p.delete("bids", bids(range(3, 9)))
        create(p, {f"of_{name}": f"SELECT * FROM {name}" for name in OLDER})
        create(p, {f"again_{name}": query for name, query in OLDER.items()})
        for more in (range(40, 45), range(45, 46)):
            p.step()

            older = {name: rows(p, name) for name in OLDER}
            assert {name: rows(p, f"of_{name}") for name in OLDER} == older
            assert {name: rows(p, f"again_{name}") for name in OLDER} == older
            assert all(older.values())
            p.insert("bids", bids(more))


def test_a_view_is_filled_while_it_runs_though_the_log_is_gone(
    spark: SparkSession, folder: Path, runtime: RuntimeName
) -> None:
    with Pipeline(spark, folder, runtime=runtime) as p:
        p.sql(f"{TABLES}; CREATE VIEW dear AS SELECT auction, price FROM bids WHERE price >= 10")
        p.start()
        p.insert("bids", bids(range(20)))
        p.wait(offset=p.insert("people", PEOPLE).offset, timeout_s=PATIENCE_S)
        p.checkpoint()
        appended = list((folder / "blobs" / "state" / "in").iterdir())
        for path in appended:
            path.unlink()
        create(
            p,
            {
                "cities": "SELECT city, sum(price) AS s FROM bids JOIN people ON bidder = id GROUP BY city",
                "dearest": "SELECT max(price) AS m FROM dear",
            },
        )
        p.stop()

        assert len(appended) == 2
        assert rows(p, "cities") == {("Ulm", 30 + 38): 1, ("Bonn", 34): 1}
        assert rows(p, "dearest") == {(19,): 1}
        assert p.insert("bids", bids(range(20, 21))).offset == 2
        p.step()
        assert rows(p, "cities") == {("Ulm", 30 + 38 + 20): 1, ("Bonn", 34): 1}


# Sharing


JOINED = "FROM bids JOIN people ON bidder = id WHERE price > 3 GROUP BY city"


def kinds(p: Pipeline) -> Counter[str]:
    """How many operators there are of each kind."""
    return Counter(type(node).__name__ for node in p._engine.plan.circuit.nodes)


def states(p: Pipeline) -> set[str]:
    return set(p._engine.runs.by_state)


@pytest.fixture
def p(spark: SparkSession, folder: Path) -> Iterator[Pipeline]:
    """Open, with tables that have no views yet; files that nobody needs go at once."""
    with Pipeline(spark, folder, runtime="inline", policy=Policy(grace_s=0.0)) as opened:
        opened.sql(TABLES)
        yield opened


def fill(p: Pipeline, count: int = 20) -> None:
    p.insert("people", PEOPLE)
    p.insert("bids", bids(range(count)))
    p.step()


def test_views_of_one_script_compute_once_what_they_have_in_common(p: Pipeline) -> None:
    views = {
        "cities": f"SELECT city, sum(price) AS s {JOINED}",
        "doubles": f"SELECT city, 2 * sum(price) AS d {JOINED}",
        "large": f"SELECT city, sum(price) AS s {JOINED} HAVING sum(price) > 50",
    }
    create(p, {"cities": views["cities"]})
    one = kinds(p)
    create(p, {name: query for name, query in views.items() if name != "cities"})
    fill(p)
    p.drop("cities")
    p.insert("bids", bids(range(20, 23)))
    p.step()

    assert kinds(p) - one == Counter(View=1, Select=2)
    assert (kinds(p)["Join"], kinds(p)["Aggregate"]) == (1, 1)
    assert rows(p, "doubles") == {("Ulm", 2 * 108): 1, ("Bonn", 2 * 54): 1}
    assert rows(p, "large") == {("Ulm", 108): 1, ("Bonn", 54): 1}


def test_a_later_view_uses_the_arrangements_that_are_there(p: Pipeline) -> None:
    create(p, {"sums": f"SELECT city, sum(price) AS s {JOINED}"})
    fill(p)
    before, nodes = states(p), kinds(p)
    create(p, {"most": f"SELECT city, max(price) AS m {JOINED}"})
    p.step()

    assert kinds(p) - nodes == Counter(View=1, Aggregate=1, Combine=1, Exchange=1, Join=1, Select=1)
    assert nodes["Arrange"] == kinds(p)["Arrange"] == 1
    assert len(states(p) - before) == 3
    assert rows(p, "most") == {("Ulm", 17): 1, ("Bonn", 16): 1}


def test_columns_that_nobody_needs_are_in_no_state_but_the_table_s(p: Pipeline) -> None:
    create(p, {"sums": f"SELECT city, sum(price) AS s {JOINED}"})
    fill(p, 400)
    [kept] = [node for node in p._engine.plan.circuit.nodes if isinstance(node, Arrange)]
    sizes = bytes_by_state(p)
    [table] = [name for name, size in sizes.items() if size > 400 * 500]

    assert kept.schema.names == ["bidder", "price"]
    assert sum(size for name, size in sizes.items() if name != table) < 400 * 100


def test_rows_that_a_filter_drops_are_in_no_state_but_the_table_s(p: Pipeline) -> None:
    create(p, {"sums": f"SELECT city, sum(price) AS s {JOINED}".replace("price > 3", "price >= 390")})
    fill(p, 400)
    runs = p._engine.runs.by_state.values()
    counts = sorted((sum(run.rows for run in state) for state in runs), reverse=True)

    assert counts[:2] == [400, 10]


def bytes_by_state(p: Pipeline) -> dict[str, int]:
    return {state: sum(run.size for run in runs) for state, runs in p._engine.runs.by_state.items()}


# Dropping


def test_a_dropped_view_frees_its_state_and_its_files(p: Pipeline, folder: Path) -> None:
    create(p, {"sums": f"SELECT city, sum(price) AS s {JOINED}"})
    fill(p, 400)
    before, lean = states(p), on_disk(p, folder)
    create(p, {"notes": "SELECT auction, max(note) AS n, collect_list(note) AS l FROM bids GROUP BY auction"})
    p.step()
    full = on_disk(p, folder)
    p.drop("notes")
    after = on_disk(p, folder)
    version = p._engine.root.version.manifest
    assert version is not None
    manifest = read_manifest(p._folder.place.blobs, version)

    assert full > lean + 400 * 500
    assert after < lean + 10_000
    assert states(p) == before
    assert set(manifest.runs) == before


def on_disk(p: Pipeline, folder: Path) -> int:
    """The bytes of all files but those of feeds, once two versions are of what there is now."""
    for _ in range(2):
        p.step()
        p.checkpoint()
    p.step()
    files = (path for path in (folder / "blobs").rglob("*") if path.is_file() and path.parent.name != "out")
    return sum(path.stat().st_size for path in files)


def test_dropping_what_others_use_is_refused_with_their_names(p: Pipeline) -> None:
    create(p, {"dear": "SELECT * FROM bids WHERE price > 3", "top": "SELECT max(price) AS m FROM dear"})
    create(p, {"cities": "SELECT DISTINCT city FROM people", "of_top": "SELECT m FROM top"})
    p.start()

    with pytest.raises(Refused, match="dear is used by top, of_top: drop those first"):
        p.drop("dear")
    with pytest.raises(Refused, match="bids is used by dear, top, of_top: drop those first"):
        p.sql("DROP TABLE bids")
    for name in ("of_top", "top", "dear", "cities"):
        p.drop(name)
    p.drop("people")

    assert (p.tables, p.views) == (("bids",), ())


def test_a_view_that_takes_the_name_of_another_while_it_runs_has_a_feed_of_its_own(
    p: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(p, {"v": "SELECT price FROM bids"})
    p.start()
    p.wait(offset=p.insert("bids", bids(range(5))).offset, timeout_s=PATIENCE_S)
    plan = p._planner.script

    def step_meanwhile(text: str, file: str | None = None) -> Any:
        """The old view has a further step after the new one was planned."""
        change = plan(text, file)
        p.wait(offset=p.insert("bids", bids(range(5, 8))).offset, timeout_s=PATIENCE_S)
        return change

    monkeypatch.setattr(p._planner, "script", step_meanwhile)
    p.sql("DROP VIEW v; CREATE VIEW v AS SELECT -price AS price FROM bids")
    p.stop()
    change = p.changes("v", since=-1).to_arrow().to_pylist()

    assert sorted((row["price"], row["_weight"]) for row in change) == [(-n, 1) for n in range(7, -1, -1)]


def test_a_view_that_is_being_dropped_is_not_shown_empty(
    p: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(
        p, {"dear": "SELECT * FROM bids WHERE price > 3", "sums": f"SELECT city, sum(price) AS s {JOINED}"}
    )
    fill(p)
    known, seen = rows(p, "sums"), []
    change_plan = p._engine.change_plan

    def read_after(*change: Any) -> None:
        """As another thread might, when the engine has dropped it and the planner has not."""
        change_plan(*change)
        with pytest.raises(NoSuchName, match="dear is being dropped"):
            p.view("dear")
        seen.append(rows(p, "sums"))

    monkeypatch.setattr(p._engine, "change_plan", read_after)
    p.drop("dear")

    assert seen == [known]
