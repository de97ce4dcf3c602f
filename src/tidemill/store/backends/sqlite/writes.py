"""A batch of writes as few statements: those of one kind that follow each other run as one."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

import apsw

from tidemill.store.backends.sql import field_columns, split_body, table
from tidemill.store.document import Collection, Done, Fence, Lost, Outcome, Term, Write

Shape: TypeAlias = Literal["create", "replace", "delete"]
Guard: TypeAlias = Literal["term", "revision"]


class Run(NamedTuple):
    """Writes that one statement can do: of one kind, and with no key twice.

    They are taken apart before the transaction begins, since encoding takes time, and may fail. A row is
    what the statement binds; where it writes a document, room is left for its revision and nonce.
    """

    collection: Collection
    shape: Shape
    guard: Guard
    release: bool
    fence: Fence | None
    keys: dict[str, None]
    rows: list[list[Any]]


def take_apart(writes: Sequence[Write]) -> list[Run]:
    """The runs of a batch, in order."""
    first = writes[0]
    run = _run_of(first)
    runs = [run]
    for write in writes:
        key, expect, body = write.key, write.expect, write.body
        if key in run.keys or (write is not first and not _alike(first, write)):
            first, run = write, _run_of(write)
            runs.append(run)
        run.keys[key] = None
        number = expect.number if type(expect) is Term else expect
        if body is None:
            run.rows.append([key, number])
            continue
        text, values = split_body(write.collection, body)
        run.rows.append(
            [None, None, key, text, *values] if number is None else [None, None, text, *values, key, number]
        )
    return runs


def _alike(one: Write, other: Write) -> bool:
    return (
        one.collection is other.collection
        and type(one.expect) is type(other.expect)
        and (one.body is None) is (other.body is None)
        and one.fence is other.fence
        and one.release is other.release
    )


def apply(
    connection: apsw.Connection, runs: Sequence[Run], number: int, nonce: int, now: int
) -> list[Outcome]:
    """Do the runs in order, inside a transaction; `number` is the first of one for each that were drawn."""
    outcomes: list[Outcome] = []
    for at, run in enumerate(runs):
        if run.fence is not None and not _stands(connection, run.fence, now):
            outcomes += [Lost()] * len(run.rows)
        elif run.shape == "delete":
            outcomes += _delete(connection, run)
        else:
            outcomes += _put(connection, run, number + at, nonce)
    return outcomes


def _run_of(write: Write) -> Run:
    shape: Shape = "create" if write.expect is None else "delete" if write.body is None else "replace"
    guard: Guard = "term" if isinstance(write.expect, Term) else "revision"
    return Run(write.collection, shape, guard, write.release, write.fence, {}, [])


def _put(connection: apsw.Connection, run: Run, number: int, nonce: int) -> list[Outcome]:
    before = connection.total_changes()
    text = _statement(run.collection, run.shape, run.guard, run.release)
    for row in run.rows:
        row[0], row[1] = number, nonce
    connection.executemany(text, run.rows)
    done = Done(number)
    if connection.total_changes() - before == len(run.rows):
        return [done] * len(run.rows)
    # Some lost; which ones, the nonce tells.
    marked = f"SELECT 1 FROM {table(run.collection)} WHERE key = ? AND nonce = ? AND revision = ?"
    return [
        done if connection.execute(marked, (key, nonce, number)).fetchone() is not None else Lost()
        for key in run.keys
    ]


def _delete(connection: apsw.Connection, run: Run) -> list[Outcome]:
    text = _statement(run.collection, run.shape, run.guard, run.release)
    gone = {key for (key,) in connection.executemany(text, run.rows)}
    return [Done(0) if key in gone else Lost() for key in run.keys]


@lru_cache(maxsize=512)
def _statement(collection: Collection, shape: Shape, guard: Guard, release: bool) -> str:
    name, columns = table(collection), ("body", *field_columns(collection))
    match shape:
        case "create":
            return (
                f"INSERT INTO {name} (revision, nonce, key, term, expire, {', '.join(columns)}) "
                f"VALUES (?, ?, ?, 0, 0{', ?' * len(columns)}) ON CONFLICT DO NOTHING"
            )
        case "replace":
            sets = ", ".join(f"{column} = ?" for column in columns)
            letting_go = ", expire = 0" if release else ""
            return (
                f"UPDATE {name} SET revision = ?, nonce = ?, {sets}{letting_go} WHERE key = ? AND {guard} = ?"
            )
        case "delete":
            return f"DELETE FROM {name} WHERE key = ? AND {guard} = ? RETURNING key"


def _stands(connection: apsw.Connection, fence: Fence, now: int) -> bool:
    text = f"SELECT 1 FROM {table(fence.collection)} WHERE key = ? AND term = ? AND expire > ?"
    return connection.execute(text, (fence.key, fence.term, now)).fetchone() is not None
