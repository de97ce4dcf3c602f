"""The head of the input log: one document to which any process appends, by compare-and-set.

An append is durable and acknowledged once it has an offset; offsets are 0, 1, 2, … in the order of appends.
A producer that numbers its appends may repeat one and gets the receipt of the first time.

`Head` and `add` are pure; `LogHead` is their shell over a store.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tidemill.base.ids import new_token
from tidemill.pipeline.errors import ForeignState, SequenceGap
from tidemill.pipeline.failpoint import reach
from tidemill.pipeline.log.chain import Chain, page_names, page_out, read_chain
from tidemill.pipeline.log.file import Files
from tidemill.pipeline.log.listing import Listing, read_listing, write_listing
from tidemill.pipeline.log.segment import SegmentRef
from tidemill.store import Collection, Conflict, OutcomeUnknown, Store, Unavailable
from tidemill.store.watch import Watch

HEADS = Collection("pipeline_heads")
FORMAT = 1

PRODUCERS = 1024
"""So many producers are remembered; one that was silent while as many others appended is forgotten."""

RECEIPTS = 8
"""So many of a producer's last appends can be repeated."""

GROUP = 256
"""So many appends may share one compare-and-set."""


class Entry(Struct, frozen=True, omit_defaults=True):
    """One append. `id` tells it from every other, so that its fate can be read back."""

    id: str
    listing: Listing
    tables: tuple[str, ...]
    rows: int
    bytes: int
    producer: str | None = None
    sequence: int | None = None
    offset: int = -1
    at: int = 0


class Producer(Struct, frozen=True, array_like=True):
    """The last number of a producer, and the offsets of its last appends, that one included."""

    name: str
    last: int
    offsets: tuple[int, ...]

    def receipt(self, sequence: int) -> "Receipt | None":
        """The receipt of a number that was appended and is still remembered."""
        back = self.last - sequence
        return Receipt(self.offsets[-1 - back], repeated=True) if 0 <= back < len(self.offsets) else None


class Head(Struct, frozen=True):
    """The document. `producers` come in the order of their last append."""

    format: int = FORMAT
    entries: Chain[Entry] = Chain()
    producers: tuple[Producer, ...] = ()


class Receipt(Struct, frozen=True):
    """The append is durable at this offset; `repeated` says that it was so before this call."""

    offset: int
    repeated: bool = False


def add(head: Head, drafts: Sequence[Entry], at: int) -> tuple[Head, list[Receipt | SequenceGap]]:
    """The head with these appends, and what each of them came to.

    A repeat of a producer's number changes nothing. A number that is neither the next nor remembered is
    refused, alone: the other drafts go on. The first number of a new producer is 0 or 1.
    """
    producers = {producer.name: producer for producer in head.producers}
    entries: list[Entry] = []
    answers: list[Receipt | SequenceGap] = []
    for draft in drafts:
        offset = head.entries.next + len(entries)
        if draft.producer is not None:
            answer = _admit(producers, draft, offset)
            if answer is not None:
                answers.append(answer)
                continue
        entries.append(replace(draft, offset=offset, at=at))
        answers.append(Receipt(offset))
    known = tuple(producers.values())[-PRODUCERS:]
    return replace(head, entries=head.entries.add(*entries), producers=known), answers


def _admit(producers: dict[str, Producer], draft: Entry, offset: int) -> Receipt | SequenceGap | None:
    """Note the producer's number and return None; or say why the draft is not to be appended."""
    name, sequence = draft.producer or "", draft.sequence
    if sequence is None:
        return SequenceGap(f"producer {name!r} gave no sequence number")
    known = producers.get(name)
    if known is None:
        if sequence not in (0, 1):
            return SequenceGap(f"producer {name!r} is not known; its first number is 0 or 1, not {sequence}")
        producers[name] = Producer(name, sequence, (offset,))
        return None
    if sequence != known.last + 1:
        gap = SequenceGap(f"the next number of producer {name!r} is {known.last + 1}, not {sequence}")
        return known.receipt(sequence) or gap
    del producers[name]  # and in again at the end: they are in the order of their last append
    producers[name] = Producer(name, sequence, (*known.offsets, offset)[-RECEIPTS:])
    return None


def trim(head: Head, below: int) -> Head:
    """The head without the appends before this offset. Never goes back."""
    return replace(head, entries=head.entries.drop_below(below))


class LogHead:
    """The log head of one pipeline, for appending and reading. Any number of processes may have one.

    `clock` gives milliseconds since the epoch, for people; nothing is decided by it.
    """

    def __init__(
        self,
        store: Store,
        key: str,
        files: Files,
        *,
        folder: str,
        clock: Callable[[], int],
        source: random.Random | None = None,
    ) -> None:
        self._store = store
        self._key = key
        self._files = files
        self._folder = folder
        self._clock = clock
        self._token: Callable[[], str] = new_token if source is None else lambda: new_token(source)
        self._waiting: list[tuple[Entry, asyncio.Future[Receipt]]] = []
        self._flusher: asyncio.Task[None] | None = None
        self._known: tuple[Head, int | None] | None = None  # as this object last wrote it; may be outdated

    async def append(
        self, segments: Sequence[SegmentRef], *, producer: str | None = None, sequence: int | None = None
    ) -> Receipt:
        """Append segments that are already published, all or none; durable on return.

        Raises `SequenceGap` when the producer's number is not the next one. When an error of the store
        leaves the outcome open, a repeat with the same producer and number is safe; without a producer,
        `OutcomeUnknown` says that it may or may not have happened.
        """
        token = self._token()
        listing = await write_listing(self._files, f"{self._folder}/listing/{token}", segments)
        draft = Entry(
            token,
            listing,
            tuple(dict.fromkeys(segment.table for segment in segments)),
            sum(segment.rows for segment in segments),
            sum(segment.file.size for segment in segments),
            producer,
            sequence,
        )
        answer: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._waiting.append((draft, answer))
        if self._flusher is None:
            self._flusher = asyncio.get_running_loop().create_task(self._flush())
        return await answer

    async def load(self) -> Head:
        """The head as it is now."""
        return (await self._load())[0]

    async def trim(self, below: int) -> None:
        """Forget the appends before this offset: no kept version needs them."""
        while True:
            head, revision = await self._load()
            after = trim(head, below)
            if after == head:
                return
            reach("log.trim.before_head")
            try:
                await self._write(after, revision)
            except Conflict:
                continue
            return

    async def entries(self, start: int, stop: int | None = None) -> AsyncIterator[Entry]:
        """The appends from this offset on, in order."""
        head = await self.load()
        async for entry in read_chain(
            head.entries, self._files, Entry, start, head.entries.next if stop is None else stop
        ):
            yield entry

    async def segments(self, entry: Entry) -> tuple[SegmentRef, ...]:
        return await read_listing(self._files, entry.listing)

    async def names(self) -> AsyncIterator[str]:
        """The names of all blobs that the log refers to: what a sweep must spare."""
        head = await self.load()
        async for name in page_names(head.entries, self._files):
            yield name
        async for entry in read_chain(head.entries, self._files, Entry, 0, head.entries.next):
            if entry.listing.file is not None:
                yield entry.listing.file.name
            for segment in await self.segments(entry):
                yield segment.file.name

    def watch(self, *, poll_s: float = 30.0) -> AbstractAsyncContextManager[Watch]:
        """Wakes when something may have been appended."""
        return self._store.watch(HEADS, poll_s=poll_s)

    # Inside

    async def _flush(self) -> None:
        """Append all that waits, a group at a time, until nothing does."""
        try:
            while self._waiting:
                group, self._waiting = self._waiting[:GROUP], self._waiting[GROUP:]
                await self._flush_group(group)
        finally:
            self._flusher = None

    async def _flush_group(self, group: Sequence[tuple[Entry, "asyncio.Future[Receipt]"]]) -> None:
        try:
            answers: Sequence[Receipt | BaseException] = await self._append([draft for draft, _ in group])
        except BaseException as error:
            answers = [error] * len(group)
            if not isinstance(error, Exception):
                raise
        finally:
            for (_, future), answer in zip(group, answers, strict=True):
                if future.done():
                    continue
                if isinstance(answer, Receipt):
                    future.set_result(answer)
                else:
                    future.set_exception(answer)

    async def _append(self, drafts: Sequence[Entry]) -> list[Receipt | SequenceGap]:
        unsure_from: int | None = None
        known, self._known = self._known, None
        while True:
            try:
                head, revision = known or await self._load()
                done = await self._find(head, unsure_from, {draft.id for draft in drafts})
                rest = [draft for draft in drafts if draft.id not in done]
                after, answers = add(head, rest, self._clock())
                if known is not None and any(isinstance(answer, SequenceGap) for answer in answers):
                    known = None  # another process may have appended the numbers in between
                    continue
                if after != head:
                    self._known = await self._extend(after, revision)
            except Conflict:
                known = None
                continue
            except OutcomeUnknown:
                known, unsure_from = None, head.entries.next if unsure_from is None else unsure_from
                continue
            except Unavailable as error:
                if unsure_from is None:
                    raise
                raise OutcomeUnknown("the store went away before an append's fate was known") from error
            told = iter(answers)
            return [done[draft.id] if draft.id in done else next(told) for draft in drafts]

    async def _extend(self, head: Head, revision: int | None) -> tuple[Head, int]:
        """Write the head, and before it the pages that are due."""
        # A page may hold appends that come to nothing here: another process, or the next attempt, has others.
        folder = f"{self._folder}/pages/{self._token()}"
        entries = await page_out(head.entries, self._files, folder)
        after = replace(head, entries=entries)
        reach("log.append.before_head")
        written = await self._write(after, revision)
        reach("log.append.after_head")
        return after, written

    async def _find(self, head: Head, start: int | None, ids: set[str]) -> dict[str, Receipt]:
        """Which of these were appended from an offset on, by a write of unknown fate; none without one."""
        if start is None:
            return {}
        if head.entries.first > start:
            raise Unavailable("an append whose answer was lost cannot be found: the log was trimmed since")
        return {
            entry.id: Receipt(entry.offset)
            async for entry in read_chain(head.entries, self._files, Entry, start, head.entries.next)
            if entry.id in ids
        }

    async def _load(self) -> tuple[Head, int | None]:
        found = await self._store.get(HEADS, self._key)
        if found is None:
            return Head(), None
        if (written_as := found.body.get("format")) != FORMAT:
            raise ForeignState(
                f"the log head of {self._key!r} has format {written_as}, and this release reads {FORMAT}"
            )
        return msgspec.convert(found.body, Head), found.revision

    async def _write(self, head: Head, revision: int | None) -> int:
        body = msgspec.to_builtins(head)
        if revision is None:
            return await self._store.create(HEADS, self._key, body)
        return await self._store.replace(HEADS, self._key, body, expect=revision)
