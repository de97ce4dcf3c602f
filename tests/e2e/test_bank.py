"""The bank test of internal consistency: what is shown is right for exactly the transactions that were taken.

TIDEMILL_BANK_ROWS says how many transactions there are: with 100,000 it takes some minutes.
"""

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from e2e import bank
from tidemill.api.pipeline import Pipeline, RuntimeName

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

ROWS = int(os.environ.get("TIDEMILL_BANK_ROWS", "1200"))
SINGLE, STEPS = (35, 45) if ROWS < 10_000 else (50, 250)
"""How many steps take one transaction each, and how many there are."""
PATIENCE_S = 600.0


@pytest.fixture(scope="module")
def transactions() -> pa.Table:
    return bank.original(ROWS)


@pytest.fixture(scope="module")
def planned(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline with all views, before the first append: to copy, so that each view is planned once."""
    folder = tmp_path_factory.mktemp("planned") / "pipeline"
    with Pipeline(spark, folder, runtime="inline") as p:
        p.sql(bank.script())
    return folder


# The transactions and what views have to be


def test_the_transactions_are_those_that_were_published() -> None:
    rows = bank.original(100_000)
    final = {view: bank.ordered(table).to_pydict() for view, table in bank.expected(rows).items()}
    seconds = rows["ts"].to_numpy().astype("datetime64[s]").astype(int)

    assert rows["id"][:8].to_pylist() == [982, 43, 113, 915, 1272, 1471, 1052, 1601]
    assert np.count_nonzero(rows["from_account"].to_numpy() == rows["to_account"].to_numpy()) == 9_973
    assert final["credits"]["credits"] == [
        10013, 10125, 10109, 9926, 10025, 9885, 10010, 9944, 9863, 10100,
    ]  # fmt: skip
    assert final["debits"]["debits"] == [9978, 10013, 10045, 9833, 9966, 9853, 10079, 9990, 10261, 9982]
    assert final["balance"]["balance"] == [35, 112, 64, 93, 59, 32, -69, -46, -398, 118]
    assert final["total"]["total"] == [0]
    assert np.count_nonzero(seconds < np.maximum.accumulate(seconds) - 5) == 35_862


def test_the_simplified_transactions_go_round_in_order() -> None:
    rows = bank.simplified(120).to_pylist()

    assert [row["id"] for row in rows] == list(range(120))
    assert all(row["to_account"] == (row["from_account"] + 1) % 10 for row in rows)
    assert [row["from_account"] for row in rows[:11]] == [*range(10), 0]
    assert [row["ts"].second for row in rows] == [number // 2 for number in range(120)]


def test_totals_are_nothing_once_every_account_has_given_and_taken() -> None:
    rows = bank.original(100_000)
    prefixes = [rows.slice(0, taken) for taken in range(1, 61)]
    totals = [bank.expected(taken)["total"]["total"][0].as_py() for taken in prefixes]

    assert [bank.shows_all_accounts(taken) for taken in prefixes].index(True) == 29
    assert sum(total not in (0, None) for total in totals[:30]) == 15
    assert set(totals[30:]) == {0}


def test_what_views_have_to_be_is_what_spark_answers(spark: SparkSession, transactions: pa.Table) -> None:
    session = spark.newSession()
    for count in (0, 7, ROWS):
        taken = transactions.slice(0, count)
        session.createDataFrame(taken).createOrReplaceTempView("transactions")
        for view, query in bank.VIEWS.items():
            session.sql(query).createOrReplaceTempView(view)
        answers = {view: session.table(view).toArrow() for view in bank.VIEWS}

        assert bank.complaints(answers, taken) == []


@pytest.mark.parametrize(
    ("view", "spoil"),
    [
        ("accepted_transactions", lambda rows: pa.concat_tables([rows, rows.slice(0, 1)])),
        (
            "outer_join_with_time",
            lambda rows: rows.set_column(1, "other_id", pa.nulls(len(rows), pa.int64())),
        ),
        ("balance", lambda rows: rows.slice(1)),
        ("total", lambda rows: pa.table({"total": [1.0]})),
    ],
)
def test_a_view_that_is_wrong_would_be_found(
    transactions: pa.Table, view: str, spoil: Callable[[pa.Table], pa.Table]
) -> None:
    right = bank.expected(transactions)
    wrong = {**right, view: spoil(right[view])}

    assert bank.complaints(right, transactions) == []
    assert any(view in text for text in bank.complaints(wrong, transactions))


# Every step


class Teller:
    """Judges a pipeline after every step, by what its views show and by what it says has changed in them."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._before = {view: rows.slice(0, 0) for view, rows in bank.expected(bank.original(1)).items()}
        self.steps = 0
        self.wrong: list[str] = []

    def step(self, taken: pa.Table) -> dict[str, int]:
        """Make the step after which exactly these transactions are taken; the rows that came too late."""
        p = self._pipeline
        record = p.step()
        shown = {view: p.view(view).to_arrow() for view in bank.VIEWS}
        changes = {view: p.changes(view, since=record.number - 1).to_arrow() for view in bank.VIEWS}
        found = bank.complaints(shown, taken) + bank.change_complaints(changes, self._before, shown)
        self.wrong += [f"step {record.number}: {text}" for text in found]
        self.steps += 1
        self._before = shown
        return record.late

    def check_feeds(self) -> None:
        """All that was ever said to have changed adds up to what there is."""
        for view, rows in self._before.items():
            change = self._pipeline.changes(view, since=-1).to_arrow()

            assert bank.same(bank.plus(rows.slice(0, 0), change), rows)


@pytest.mark.parametrize(
    ("make", "single", "steps"), [(bank.original, SINGLE, STEPS), (bank.simplified, 12, 20)]
)
def test_every_step_shows_what_was_taken_and_nothing_else(
    spark: SparkSession, planned: Path, folder: Path, make: Callable[[int], pa.Table], single: int, steps: int
) -> None:
    rows, lots = make(ROWS), bank.lots(ROWS, steps, single)
    shutil.copytree(planned, folder)
    with Pipeline(spark, folder, runtime="inline") as p:
        teller = Teller(p)
        for lot in lots:
            p.insert("transactions", rows.slice(lot.start, len(lot)))
            teller.step(rows.slice(0, lot.stop))
        teller.check_feeds()
    print(f"{teller.steps} steps judged, {len(teller.wrong)} outputs wrong")

    assert teller.wrong == []
    assert teller.steps == len(lots) == steps


def test_transactions_that_are_taken_back_leave_no_trace(
    spark: SparkSession, planned: Path, folder: Path
) -> None:
    """Each lot brings some, and takes back every third of those before."""
    rows = bank.original(600).to_pandas()
    kept = rows.iloc[:0]
    shutil.copytree(planned, folder)
    with Pipeline(spark, folder, runtime="inline") as p:
        teller = Teller(p)
        for lot in bank.lots(len(rows), 15, single=6):
            new, gone = rows.iloc[lot.start : lot.stop], kept.iloc[lot.start % 3 :: 3]
            p.apply({"transactions": pd.concat([new.assign(_weight=1), gone.assign(_weight=-1)])})
            kept = pd.concat([kept.drop(gone.index), new])
            teller.step(pa.Table.from_pandas(kept, preserve_index=False))
        teller.check_feeds()

    assert teller.wrong == []


def test_transactions_that_come_too_late_are_in_no_view(spark: SparkSession, folder: Path) -> None:
    rows = bank.original(600).to_pandas()
    kept = rows.iloc[:0]
    with Pipeline(spark, folder, runtime="inline") as p:
        p.sql(bank.script(" LATENESS INTERVAL 5 SECONDS"))
        teller = Teller(p)
        for lot in bank.lots(len(rows), 15, single=3):
            new = rows.iloc[lot.start : lot.stop]
            in_time = new[~(new["ts"] < rows["ts"].iloc[: lot.start].max() - pd.Timedelta(seconds=5))]
            kept = pd.concat([kept, in_time])
            p.insert("transactions", new)
            late = teller.step(pa.Table.from_pandas(kept, preserve_index=False))

            assert sum(late.values()) == len(new) - len(in_time)

    assert 0 < len(kept) < len(rows)
    assert teller.wrong == []


def test_steps_on_spark_and_inline_take_turns_with_any_number_of_workers(
    spark: SparkSession, planned: Path, folder: Path, transactions: pa.Table
) -> None:
    ends = iter([1, 2, 30, 400, 401, ROWS])
    turns: tuple[tuple[RuntimeName, int], ...] = (("batch", 2), ("inline", 4), ("batch", 3))
    start = 0
    shutil.copytree(planned, folder)
    for runtime, workers in turns:
        with Pipeline(spark, folder, runtime=runtime, workers=workers) as p:
            for stop in (next(ends), next(ends)):
                p.insert("transactions", transactions.slice(start, stop - start))
                p.step()
                shown = {view: p.view(view).to_arrow() for view in bank.VIEWS}
                start = stop

                assert bank.complaints(shown, transactions.slice(0, stop)) == []


# Beside the steps


class Onlooker(threading.Thread):
    """Reads and judges all views again and again, whenever they are at one step, while others make steps.

    `ends` says how many transactions are in so many appends.
    """

    def __init__(self, pipeline: Pipeline, transactions: pa.Table, ends: list[int]) -> None:
        super().__init__(daemon=True)
        self._pipeline = pipeline
        self._transactions = transactions
        self._ends = ends
        self._looked = threading.Condition()
        self._enough = False
        self.steps: list[int] = []
        self.wrong: list[str] = []

    def run(self) -> None:
        while not self._enough:
            held = {view: self._pipeline.view(view) for view in bank.VIEWS}
            [step, *others] = {rows.step for rows in held.values()}
            if not others and step >= 0:
                self.wrong += self.judge(step, {view: rows.to_arrow() for view, rows in held.items()})
                with self._looked:
                    self.steps.append(step)
                    self._looked.notify_all()

    def judge(self, step: int, shown: bank.Views) -> list[str]:
        taken = self._ends[self._pipeline.wait(step=step).stop]
        found = bank.complaints(shown, self._transactions.slice(0, taken))
        return [f"step {step}: {text}" for text in found]

    def wait_for_later_step(self) -> None:
        """Wait until it has seen a step that it had not seen before."""
        with self._looked:
            last = self._last
            assert self._looked.wait_for(lambda: self._last > last, PATIENCE_S)

    @property
    def _last(self) -> int:
        return self.steps[-1] if self.steps else -1

    def stop(self) -> None:
        self._enough = True
        self.join(PATIENCE_S)
        assert not self.is_alive()


def test_one_who_reads_beside_the_steps_sees_all_views_at_one_of_them(
    spark: SparkSession, planned: Path, folder: Path, transactions: pa.Table
) -> None:
    lots = bank.lots(ROWS, STEPS // 2, SINGLE // 2)
    shutil.copytree(planned, folder)
    with Pipeline(spark, folder, runtime="inline") as p:
        p.start()
        onlooker = Onlooker(p, transactions, [0, *(lot.stop for lot in lots)])
        onlooker.start()
        for number, lot in enumerate(lots):
            offset = p.insert("transactions", transactions.slice(lot.start, len(lot))).offset
            if number % 2:
                onlooker.wait_for_later_step()
            if number == len(lots) // 2:
                pinned = p.pins.add("audit")
        p.wait(offset=offset, timeout_s=PATIENCE_S)
        onlooker.stop()
        audit = {view: p.view(view, pin="audit").to_arrow() for view in bank.VIEWS}
        wrong = [*onlooker.wrong, *onlooker.judge(pinned, audit)]
    print(f"{len(onlooker.steps)} looks at {len(set(onlooker.steps))} steps judged, {len(wrong)} wrong")

    assert wrong == []
    assert len(set(onlooker.steps)) >= len(lots) // 2
