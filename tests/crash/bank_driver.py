"""The bank of `e2e.bank` on real Spark, in a driver process that does what it is told and can be killed.

python -m crash.bank_driver MASTER FOLDER

It reads its input as `spark_child` does. The folder holds a pipeline that was planned before.
"""

import os
import sys
from pathlib import Path

import tidemill
from crash.bank_child import POLICY, transactions
from crash.spark_child import QUIET, serve
from e2e import bank
from tidemill.pipeline import failpoint
from tidemill.pipeline.runtimes.session import create_session

LATER = ("balance2", "total2")
"""Views that go and come again."""


class Driver:
    """The pipeline and what can be asked of it."""

    def __init__(self, master: str, folder: str) -> None:
        self.folder = Path(folder)
        self.spark = create_session("bank", master=master, settings=QUIET)
        self.pipeline: tidemill.Pipeline | None = None

    @property
    def at(self) -> tidemill.Pipeline:
        assert self.pipeline is not None
        return self.pipeline

    def open(self, workers: str) -> None:
        self.pipeline = tidemill.Pipeline(self.spark, self.folder / "p", workers=int(workers), policy=POLICY)

    def take(self, number: str, start: str, stop: str, count: str) -> list[str]:
        """Let the step of that number take these of the transactions; what is wrong after it."""
        rows = transactions(int(count))
        lot = rows.slice(int(start), int(stop) - int(start))
        self.at.insert("transactions", lot, producer="teller", sequence=int(number))
        if self.at._engine.root.last <= int(number):
            self.at.step()
        shown = {view: self.at.view(view).to_arrow() for view in self.at.views}
        return bank.complaints(shown, rows.slice(0, int(stop)))

    def arm(self, point: str) -> None:
        """Die when this point is reached."""
        os.environ[failpoint.VARIABLE] = point

    def drop_later(self) -> None:
        for view in reversed(LATER):
            self.at.sql(f"DROP VIEW IF EXISTS {view}")

    def create_later(self) -> None:
        for view in LATER:
            self.at.sql(f"CREATE VIEW IF NOT EXISTS {view} AS {bank.VIEWS[view]}")


if __name__ == "__main__":
    serve(Driver(*sys.argv[1:]))
