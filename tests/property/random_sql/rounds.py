"""Rounds: random cases, judged one after the other for as long as is wanted."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from pyspark.sql import SparkSession

from property.random_sql import aggregates
from property.random_sql.case import Case, View
from property.random_sql.changes import Change, Step, draw_steps
from property.random_sql.judge import Verdict, Wrong, judge
from property.random_sql.relations import relation
from property.random_sql.shrink import shrink
from property.random_sql.tables import KIND_OF, TABLES
from property.random_sql.tree import Column, Sql
from property.random_sql.values import Draw

VIEWS = 14
STEPS = 3
LEAVES = tuple(
    Sql(tuple(Column(column.name, KIND_OF[column.sql]) for column in table.columns), table.name)
    for table in TABLES.values()
)


@dataclass(frozen=True, slots=True)
class Limits:
    """When to end: after so long, so many queries or so many rounds, whichever is first."""

    seconds: float
    queries: int | None = None
    rounds: int | None = None


@dataclass(slots=True)
class Tally:
    """What all rounds of a seed came to."""

    seed: int
    rounds: int = 0
    queries: int = 0
    verdict: Verdict = field(default_factory=Verdict)
    faults: list[str] = field(default_factory=list)
    """Each as text: what is wrong, and the smallest case found that shows it."""


def run(
    spark: SparkSession, folder: Path, seed: int, limits: Limits, *, shrink_s: float, first: int = 0
) -> Tally:
    """Judge rounds until a limit is reached. What is wrong in one is made small, and others follow."""
    tally = Tally(seed)
    end = time.monotonic() + limits.seconds
    for number, case in rounds(seed, first):
        verdict = judge(spark, folder / f"round-{number}", case)
        tally.rounds += 1
        tally.queries += len(case.views)
        tally.verdict.add(verdict)
        for wrong in _first_of_each_kind(verdict.wrong):
            where = f"seed {seed}, round {number}"
            tally.faults.append(explained(spark, folder, where, case, wrong, shrink_s))
            print(tally.faults[-1], flush=True)
        done = tally.rounds >= (limits.rounds or float("inf"))
        if done or len(tally.verdict.judged) >= (limits.queries or float("inf")) or time.monotonic() > end:
            return tally
    raise AssertionError("rounds do not end")


def rounds(seed: int, first: int = 0) -> Iterator[tuple[int, Case]]:
    """Without end, from the first on; each can be drawn without those before it."""
    number = first
    while True:
        yield number, draw_case(Random(f"{seed}/{number}"))
        number += 1


def draw_case(random: Random) -> Case:
    """Views over tables and over each other, some created late. One round in seven runs in Spark's tasks.

    Where something may raise, a step is one append: what others left would be seen in between.
    """
    in_spark, raising = random.random() < 0.1, random.random() < 0.15
    leaves, views = list(LEAVES), dict[str, View]()
    for number in range(VIEWS):
        draw = Draw(
            random,
            list(leaves),
            in_spark=in_spark,
            raising=raising and random.random() < 0.3,
            names=100 * number,
        )
        query = relation(draw, random.choice((1, 2, 2, 3, 3, 4)))
        if random.random() < 0.08:
            query = aggregates.loose(draw, query)
        elif random.random() < 0.3:
            leaves.append(Sql(query.columns, f"v{number}"))
        views[f"v{number}"] = _view(random, f"v{number}", query, views)
    steps = draw_steps(random, STEPS)
    return Case(
        tuple(views.values()),
        tuple(map(_at_once, steps)) if raising else steps,
        "batch" if in_spark else "inline",
        random.choice([None, None, *range(1, STEPS)]),
        random.choice(((2, 2), (1, 2), (3, 1))),
        random.choice((None, None, 2, 7)),
    )


def _view(random: Random, name: str, query: Sql, views: dict[str, View]) -> View:
    """Created before the first step or some other, but not before what it reads."""
    reads = frozenset(piece.template for _, piece in query.places() if piece.template in views)
    since = random.choice((0, 0, 0, 0, 1, 2))
    return View(name, query, max([since, *(views[other].since for other in reads)]), reads)


def _at_once(step: Step) -> Step:
    changes: tuple[Change, ...] = tuple(change for append in step for change in append)
    return (changes,) if changes else ()


def _first_of_each_kind(wrong: list[Wrong]) -> list[Wrong]:
    """A fault in one view shows in those that read it, and at the steps after."""
    return list({one.kind: one for one in reversed(wrong)}.values())


def explained(spark: SparkSession, folder: Path, where: str, case: Case, wrong: Wrong, seconds: float) -> str:
    """The fault, and the smallest case that shows one of its kind."""
    count = iter(range(10**6))

    def found(candidate: Case) -> Wrong | None:
        verdict = judge(spark, folder / f"smaller-{next(count)}", candidate)
        return next((one for one in verdict.wrong if one.kind == wrong.kind), None)

    small = shrink(case, lambda candidate: found(candidate) is not None, seconds)
    last = found(small) or wrong
    return f"# {where}: view {last.view} after step {last.step}: {last.what}\n{small}"
