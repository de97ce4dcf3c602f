"""How many writes become few statements.

Writes stand on their own but happen in order, so a write must come after an earlier one that touches
the same document, be it as its target or as its fence. Such writes go in later waves; within a wave,
all writes of one kind are one statement, with keys in order, so that two batches do not deadlock.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from tidemill.store.backends.postgres.pool import Request, Row
from tidemill.store.backends.postgres.statements import Guard, Kind, write_many, write_one
from tidemill.store.backends.postgres.values import array_of
from tidemill.store.backends.sql import split_body
from tidemill.store.document import Done, Fence, FieldType, Lost, Outcome, Term, Write

Place: TypeAlias = tuple[str, str]


def plan(writes: Sequence[Write]) -> list[list[int]]:
    """The groups to be done one after another; each holds the positions of its writes."""
    if len(writes) == 1:
        return [[0]]
    waves = _waves(writes)
    groups: dict[tuple[int, Kind, Fence | None], list[int]] = {}
    for at, write in enumerate(writes):
        groups.setdefault((waves[at], kind_of(write), write.fence), []).append(at)
    ordered = sorted(groups.items(), key=lambda group: (group[0][0], group[0][1].collection.name))
    return [sorted(group, key=lambda at: writes[at].key) for _, group in ordered]


def request(writes: Sequence[Write], nonce: int) -> Request:
    """The statement that does the writes of one group."""
    kind, fence = kind_of(writes[0]), writes[0].fence
    head: list[Any] = [] if fence is None else [fence.key, fence.term]
    if not kind.removes:
        head.append(nonce)
    if len(writes) == 1:
        return write_one(kind), [*head, *_values(kind, writes[0])]
    columns = zip(*(_values(kind, write) for write in writes), strict=True)
    arrays = [array_of(of, column) for of, column in zip(_types(kind), columns, strict=True)]
    return write_many(kind), [*head, *arrays]


def outcomes(writes: Sequence[Write], rows: Sequence[Row]) -> list[Outcome]:
    """What became of the writes of one group."""
    if len(writes) == 1:
        return [Done(rows[0][0]) if rows else Lost()]
    written = {row[0]: row[1] for row in rows}
    return [Done(written[write.key]) if write.key in written else Lost() for write in writes]


def kind_of(write: Write) -> Kind:
    guard: Guard = (
        "absent" if write.expect is None else "term" if isinstance(write.expect, Term) else "revision"
    )
    leases = None if write.fence is None else write.fence.collection
    return Kind(write.collection, guard, write.body is None, write.release, leases)


def _values(kind: Kind, write: Write) -> Sequence[Any]:
    """The parameters of one write, in the order in which its statement has them."""
    content: list[Any] = []
    if write.body is not None:
        text, fields = split_body(write.collection, write.body)
        content = [text, *fields]
    if kind.guard == "absent":
        return (write.key, *content)
    expected = write.expect.number if isinstance(write.expect, Term) else write.expect
    return (*content, write.key, expected)


def _types(kind: Kind) -> Iterable[FieldType]:
    content: list[FieldType] = [] if kind.removes else ["text", *(of for _, of in kind.collection.fields)]
    return ["text", *content] if kind.guard == "absent" else [*content, "text", "integer"]


def _waves(writes: Sequence[Write]) -> list[int]:
    written: dict[Place, int] = {}
    leaned_on: dict[Place, int] = {}
    waves: list[int] = []
    for write in writes:
        target = (write.collection.name, write.key)
        wave = 1 + max(written.get(target, -1), leaned_on.get(target, -1))
        if write.fence is not None:
            lease = (write.fence.collection.name, write.fence.key)
            wave = max(wave, 1 + written.get(lease, -1))
            leaned_on[lease] = max(wave, leaned_on.get(lease, -1))
        written[target] = wave
        waves.append(wave)
    return waves
