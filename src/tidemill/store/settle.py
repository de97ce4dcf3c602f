"""What became of writes whose answer was lost.

Every written document keeps the nonce of its last write. So, for each write of a lost batch:

    the nonce is there                     it happened
    the document is as it was before       it has not happened, yet: send it again, with the same nonce;
                                           of the two only one can meet its expectation
    the document has moved on              another writer came before or after it: unknown

The second line needs the repeat, because the first request may still be under way inside the
database and land later. The third is not guessed.
"""

from collections.abc import Mapping, Sequence

from tidemill.store.backend import Backend
from tidemill.store.document import Collection, Done, Lost, Outcome, Unknown, Write


async def settle(backend: Backend, writes: Sequence[Write], nonce: int) -> list[Outcome]:
    """The fate of each write, as far as it can be known."""
    fates = _judge(writes, await _read_back(backend, writes), nonce)
    again = [at for at, fate in enumerate(fates) if fate is None]
    if again:
        repeated = await backend.write([writes[at] for at in again], nonce)
        for at, outcome in zip(again, repeated, strict=True):
            fates[at] = outcome if isinstance(outcome, Done) else None
    if None in fates:
        late = _judge(writes, await _read_back(backend, writes), nonce)
        fates = [fate or seen or Lost() for fate, seen in zip(fates, late, strict=True)]
    return [fate or Unknown() for fate in fates]


Seen = Mapping[tuple[str, str], tuple[int, int]]


async def _read_back(backend: Backend, writes: Sequence[Write]) -> Seen:
    keys: dict[str, tuple[Collection, list[str]]] = {}
    for write in writes:
        keys.setdefault(write.collection.name, (write.collection, []))[1].append(write.key)
    seen: dict[tuple[str, str], tuple[int, int]] = {}
    for name, (collection, wanted) in keys.items():
        for key, mark in (await backend.nonces(collection, wanted)).items():
            seen[name, key] = mark
    return seen


def _judge(writes: Sequence[Write], seen: Seen, nonce: int) -> list[Outcome | None]:
    """Done, Unknown, or None where the document is as the write expects to find it."""
    return [_fate(write, seen.get((write.collection.name, write.key)), nonce) for write in writes]


def _fate(write: Write, mark: tuple[int, int] | None, nonce: int) -> Outcome | None:
    if mark is None:
        return None if write.expect is None else Unknown()
    revision, last = mark
    if last == nonce:
        return Done(revision)
    return None if write.expect == revision else Unknown()
