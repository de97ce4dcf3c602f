"""A case: views, and what is appended step by step."""

from dataclasses import dataclass
from pprint import pformat

from property.random_sql.changes import Change, Step
from property.random_sql.tables import TABLES
from property.random_sql.tree import Sql
from tidemill.api.pipeline import RuntimeName


@dataclass(frozen=True, slots=True)
class View:
    """A view, the views it reads, and the step before which it is created."""

    name: str
    query: Sql | str
    since: int = 0
    reads: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """The query, without the brackets that a relation has."""
        found = str(self.query)
        return found[1:-1] if isinstance(self.query, Sql) and found.startswith("(") else found

    @property
    def create(self) -> str:
        return f"CREATE VIEW {self.name} AS {self.text}"


@dataclass(frozen=True, slots=True)
class Case:
    """Judged from empty tables on. The pipeline is closed and opened again before step `reopened`.

    `workers` are its pipeline workers before and after that. With `cut`, state is in pieces of so many rows,
    and a step goes through so many at a time.
    """

    views: tuple[View, ...]
    steps: tuple[Step, ...]
    runtime: RuntimeName = "inline"
    reopened: int | None = None
    workers: tuple[int, int] = (2, 2)
    cut: int | None = None

    def __str__(self) -> str:
        """Python that makes it, with what has to be known to run it elsewhere."""
        tables = "\n".join(f"#   {table.create}" for table in TABLES.values())
        views = "\n".join(
            f"        View({view.name!r}, {view.text!r}, since={view.since})," for view in self.views
        )
        steps = "\n".join(f"        ({_steps(step)})," for step in self.steps)
        return (
            f"{tables}\nCase(\n    views=(\n{views}\n    ),\n    steps=(\n{steps}\n    ),\n"
            f"    runtime={self.runtime!r},\n    reopened={self.reopened},\n"
            f"    workers={self.workers},\n    cut={self.cut},\n)"
        )


def _steps(step: Step) -> str:
    return "".join(f"({''.join(f'{_change(change)}, ' for change in append)}), " for append in step)


def _change(change: Change) -> str:
    weight = "" if change.weight == 1 else f", {change.weight}"
    return f"Change({change.table!r}, {pformat(change.row, width=10_000)}{weight})"
