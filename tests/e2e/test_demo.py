"""The demo as people see it, on a Spark of its own; and a pipeline of anybody's SQL on invented rows."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidemill
from tidemill.api.explain import read_script
from tidemill.app.demo.show import Show
from tidemill.app.demo.stage import course_of, prepare, unfit
from tidemill.pipeline.errors import Refused, StepAborted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill.app.demo.figures import Figures
    from tidemill.pipeline.runtimes.java import Java

DRIVER = Path(__file__).with_name("demo_driver.py")
OWN = """
CREATE TABLE Sensors (Id INT PRIMARY KEY, room STRING NOT NULL, tags ARRAY<STRING>, since DATE);
CREATE TABLE readings (
  sensor INT, value DOUBLE, money DECIMAL(8, 2), ok BOOLEAN, extra MAP<STRING, BIGINT>,
  at TIMESTAMP LATENESS INTERVAL 1 HOUR, wall TIMESTAMP_NTZ, place STRUCT<x: FLOAT, room: STRING>
);
CREATE TABLE plans (room STRING, hour TINYINT, note BINARY, PRIMARY KEY (room, hour));

CREATE VIEW by_room AS
  SELECT room, count(*) AS n, sum(value) AS total, avg(money) AS mean, max(at) AS last
  FROM readings JOIN sensors ON sensor = id GROUP BY room;
CREATE VIEW recent AS SELECT sensor, value, place.x FROM readings WHERE at > now() - INTERVAL 1 SECOND;
CREATE VIEW planned AS SELECT hour, room, id FROM plans JOIN sensors USING (room);
CREATE VIEW tagged AS SELECT tag, count(*) AS n FROM sensors LATERAL VIEW explode(tags) AS tag GROUP BY tag;
"""


class After(threading.Event):
    """Set once it was waited for so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self._times = times

    def wait(self, timeout: float | None = None) -> bool:
        self._times -= 1
        return self._times < 0


def test_a_pipeline_of_ones_own_is_fed_shown_and_checked(spark: "SparkSession", tmp_path: Path) -> None:
    told: list[Figures] = []
    with tidemill.Pipeline(spark, tmp_path / "p", runtime="inline") as pipeline:
        pipeline.sql(OWN)
        course = course_of(pipeline, OWN, 1_700_000_000_000_000)
        Show(pipeline, course, told.append).run(After(4), threading.Event())
        sizes = {table: pipeline.view(table).to_arrow().num_rows for table in pipeline.tables}
        rooms = pipeline.view("by_room").to_arrow().column("room").sort().to_pylist()

    last = told[-1]
    assert [figures.phase for figures in told] == ["loading", *["running"] * 5, "finished"]
    assert (last.steps, last.wrong) == (4, 0)
    assert {view.name: view.checked > 0 for view in last.views} == dict.fromkeys(pipeline.views, True)
    assert min(view.rows for view in last.views) > 0
    assert last.tables == sizes
    assert {view.name: (view.step_ms or 0) > 0 for view in last.views} == dict.fromkeys(pipeline.views, True)
    assert last.views[0].columns == ("room", "n", "total", "mean", "last")
    assert [row[0] for row in last.views[0].some] == rooms[:3]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"CREATE TABLE t (a INT)", r"mine\.sql: there is no view to show: add a CREATE VIEW"),
        (b"-- \xb7", r"mine\.sql: this is no text in UTF-8, at byte 3"),
        (
            b"CREATE TABLE t (a INT);\nCREATE VIEW v AS SELECT rand() FROM t",
            r"mine\.sql:2:25: view v: rand\(\) gives",
        ),
    ],
)
def test_a_file_that_cannot_be_shown_is_refused_by_name(
    spark: "SparkSession", tmp_path: Path, content: bytes, told: str
) -> None:
    script = tmp_path / "mine.sql"
    script.write_bytes(content)
    with (
        tidemill.Pipeline(spark, tmp_path / "p", runtime="inline") as pipeline,
        pytest.raises(Refused, match=told),
    ):
        prepare(pipeline, script, read_script(script))


def test_a_view_that_fails_on_invented_rows_is_told_as_such(spark: "SparkSession", tmp_path: Path) -> None:
    script = tmp_path / "mine.sql"
    script.write_text("CREATE TABLE t (a INT, b INT); CREATE VIEW v AS SELECT a / b AS q FROM t")
    with tidemill.Pipeline(spark, tmp_path / "p", runtime="inline") as pipeline:
        show = Show(pipeline, prepare(pipeline, script, read_script(script)), lambda _: None)
        with pytest.raises(StepAborted) as aborted:
            show.run(After(1), threading.Event())

    told = str(unfit(aborted.value))
    assert told.startswith("view v fails on an invented row, as it would in Spark: [DIVIDE_BY_ZERO] Division")
    assert "(step" not in told


class Demo:
    """`tidemill demo` in a folder of its own, with a driver that tests have made their own."""

    def __init__(self, folder: Path, *flags: str) -> None:
        known = {name: value for name, value in os.environ.items() if not name.startswith("TIDEMILL_")}
        program = "from tidemill.app.demo import child; from tidemill.app.cli import main; "
        program += f"child.DRIVER = ({str(DRIVER)!r},); main()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, "demo", "--port", "0", "--headless", "--json", *flags],
            cwd=folder,
            env=known,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said: list[str] = []

    def until(self, text: str) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if text in line:
                return
        raise AssertionError(self.said)

    def end(self) -> dict[str, Any]:
        out, err = self.process.communicate()
        self.said.append(err)
        document: dict[str, Any] = json.loads(out)
        return document


def test_the_auctions_run_until_interrupted(java: "Java", tmp_path: Path) -> None:
    demo = Demo(tmp_path)
    demo.until("; equal")
    demo.process.send_signal(signal.SIGINT)
    document = demo.end()

    pipeline, said = document["pipeline"], "".join(demo.said)
    assert demo.process.returncode == 0
    assert document["leader"] == document["node"]
    assert pipeline["checked"] >= 1
    assert pipeline["wrong"] == 0
    assert pipeline["steps"] >= 1
    assert pipeline["tables"]["bids"] > 40_000
    assert {name for name, view in pipeline["views"].items() if view["rows"] == 0} == set()
    assert "starting Spark" in said
    assert "WARN" not in said
    [data] = re.findall(r"(?m)^data +(\S+)", said)
    assert not Path(data).exists()
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_answer_is_found_and_ends_it_with_1(java: "Java", tmp_path: Path) -> None:
    script = tmp_path / "mine.sql"
    views = "CREATE VIEW whole AS SELECT g, sum(v) AS s FROM t GROUP BY g;\n"
    views += "CREATE VIEW broken AS SELECT g, max(v) AS m FROM t GROUP BY g"
    script.write_text(f"CREATE TABLE t (g TINYINT, v BIGINT); -- a table\n{views}")
    flags = ("--seconds", "1", "--sql", str(script))
    demo = Demo(tmp_path, *flags)
    pipeline = demo.end()["pipeline"]

    assert demo.process.returncode == 1
    assert pipeline["views"]["whole"]["checked"] >= 1
    assert pipeline["views"]["whole"]["wrong"] == 0
    assert pipeline["views"]["broken"]["wrong"] == pipeline["views"]["broken"]["checked"] >= 1
    assert "answers were wrong [demo.wrong]" in demo.said[-1]
