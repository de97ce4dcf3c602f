"""`tidemill pipeline explain`: what it prints, where, and how it ends."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidemill.api import explain
from tidemill.app.cli import main

Run = Callable[..., tuple[int, str, str]]
SCRIPT = """-- auctions
CREATE TABLE bids (auction BIGINT, price BIGINT);
CREATE VIEW best (auction, price) COMMENT 'of each; the best' AS
  SELECT auction, max(price) FROM bids GROUP BY auction;
"""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run the command in this process, in a folder with a file of SQL."""
    monkeypatch.chdir(tmp_path)
    Path("auctions.sql").write_text(SCRIPT)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tidemill", "pipeline", "explain", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        written = capsys.readouterr()
        return int(ended.value.code or 0), written.out, written.err

    return run


def test_the_circuit_is_printed_with_the_words_of_the_file(spark: SparkSession, run: Run) -> None:
    code, out, err = run("auctions.sql")

    assert (code, err) == (0, "")
    assert "Aggregate 1: Max(price) by (auction); keeps a total per group, and the values that MAX" in out
    assert "\n      from line 4: max(price)\n" in out
    assert "View 2: view best (auction, price)" in out
    assert not Path("tidemill.db").exists()


def test_it_is_data_for_programs_and_a_graph_for_eyes(spark: SparkSession, run: Run) -> None:
    code, out, _ = run("auctions.sql", "--json")
    assert code == 0
    assert json.loads(out)["nodes"][-1]["node"] == "View"

    code, out, _ = run("auctions.sql", "--dot")
    assert code == 0
    assert out.startswith("digraph")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("CREATE TABLE t (a INT);\n  INSERT INTO t VALUES (1)", "2:3: INSERT is no statement"),
        (
            "CREATE TABLE t (a INT);\nCREATE VIEW v AS SELECT\n  rand() AS r FROM t",
            "3:3: view v: rand() gives",
        ),
        ("CREATE VIEW v AS\n SELECT *\n FROM nowhere", "3:7: view v: [TABLE_OR_VIEW_NOT_FOUND]"),
        ("CREATE VIEW v AS SELECT a\nFROM (SELECT 1 AS", "2:18: view v: [PARSE_SYNTAX_ERROR]"),
        ("CREATE TABLE t (a INT);\nCREATE TABLE t (b INT)", "2:1: table t: there is a table of that name"),
    ],
)
def test_what_is_refused_is_told_with_file_line_and_column(
    spark: SparkSession, run: Run, text: str, told: str
) -> None:
    Path("bad.sql").write_text(text)
    code, out, err = run("bad.sql")

    assert (code, out) == (1, "")
    assert err.startswith(f"error: bad.sql:{told}")
    assert len(err.splitlines()) == 1


def test_a_file_that_is_not_there_and_a_wrong_flag_have_codes_of_their_own(run: Run) -> None:
    assert run("nowhere.sql") == (3, "", "error: there is no file nowhere.sql [not_found]\n")
    assert run("auctions.sql", "--json", "--dot")[0] == 2
    assert run()[0] == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "bad.sql: there is no statement in it: write CREATE TABLE"),
        ("-- nothing yet;\n", "bad.sql: there is no statement in it: write CREATE TABLE"),
        ("\n SHOW TABLES", "bad.sql:2:2: SHOW is no statement of a pipeline"),
    ],
)
def test_a_file_without_statements_of_a_pipeline_is_refused_before_spark_is_started(
    run: Run, monkeypatch: pytest.MonkeyPatch, text: str, told: str
) -> None:
    monkeypatch.setattr(explain, "_session", lambda: pytest.fail("Spark was started"))
    Path("bad.sql").write_text(text)
    code, out, err = run("bad.sql")

    assert (code, out) == (1, "")
    assert err.startswith(f"error: {told}")


def test_spark_says_nothing_in_between(tmp_path: Path, java: object) -> None:
    file = tmp_path / "auctions.sql"
    file.write_text(SCRIPT)
    command = [sys.executable, "-m", "tidemill", "pipeline", "explain", str(file)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)

    assert answer.stderr == ""
    assert answer.stdout.startswith("  0 [stage 0] Source: table bids")
    assert [path.name for path in tmp_path.iterdir()] == ["auctions.sql"]
