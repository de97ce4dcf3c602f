"""Chains: numbered lists that a document can carry for ever, because only their newest items lie in it.

Older items roll into pages, which are immutable blobs; pages roll into pages of pages. A document therefore
holds at most `2 * PAGE` items and as many references for each power of `PAGE`, however long the chain grows.

    pages of pages   [0 ......... 4095]
    pages                               [4096 .. 4159] [4160 .. 4223]
    tail                                                              4224, 4225, … next - 1

`Chain` is a pure value. Who writes a document writes the page that is `due` first, and the document that
refers to it afterwards; a crash between the two leaves an unreferenced blob.
"""

from collections.abc import AsyncIterator
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tidemill.pipeline.errors import ForeignState
from tidemill.pipeline.failpoint import reach
from tidemill.pipeline.log.file import FileRef, Files

T = TypeVar("T")

PAGE = 64
FORMAT = 1


class Page(Struct, frozen=True):
    """Items `first` to `last`, in a blob; of level 0 they are items, above they are pages."""

    first: int
    last: int
    level: int
    file: FileRef


class Due(Struct, Generic[T], frozen=True):
    """What has to become a page now."""

    first: int
    last: int
    level: int
    items: tuple[T | Page, ...]

    def encode(self) -> bytes:
        return msgspec.json.encode({"format": FORMAT, "items": self.items})


class Chain(Struct, Generic[T], frozen=True):
    """Items `first` to `next - 1`; those in `tail` are the newest."""

    first: int = 0
    next: int = 0
    pages: tuple[Page, ...] = ()
    tail: tuple[T, ...] = ()

    @property
    def tail_first(self) -> int:
        return self.next - len(self.tail)

    def add(self, *items: T) -> "Chain[T]":
        return replace(self, next=self.next + len(items), tail=self.tail + items)

    def with_last(self, item: T) -> "Chain[T]":
        """The same with another last item."""
        return replace(self, tail=(*self.tail[:-1], item))

    def drop_below(self, number: int) -> "Chain[T]":
        """Forget the items before `number`; never goes back."""
        if number <= self.first:
            return self
        number = min(number, self.next)
        return replace(
            self,
            first=number,
            pages=tuple(page for page in self.pages if page.last >= number),
            tail=self.tail[max(number - self.tail_first, 0) :],
        )

    def due(self) -> Due[T] | None:
        """The page that has to be written before the chain may grow further, if there is one."""
        if len(self.tail) >= 2 * PAGE:
            first = self.tail_first
            return Due(first, first + PAGE - 1, 0, self.tail[:PAGE])
        for level in sorted({page.level for page in self.pages}):
            alike = [page for page in self.pages if page.level == level]
            if len(alike) >= 2 * PAGE:
                return Due(alike[0].first, alike[PAGE - 1].last, level + 1, tuple(alike[:PAGE]))
        return None

    def paged(self, due: Due[T], file: FileRef) -> "Chain[T]":
        """The same items, with those that were due in their page."""
        page = Page(due.first, due.last, due.level, file)
        kept = [other for other in self.pages if other not in due.items]
        tail = self.tail[PAGE:] if due.level == 0 else self.tail
        return replace(self, pages=tuple(sorted([*kept, page], key=lambda page: page.first)), tail=tail)


async def page_out(chain: Chain[T], files: Files, folder: str) -> Chain[T]:
    """Write the pages that are due. `folder` must belong to this chain and writer."""
    while (due := chain.due()) is not None:
        name = f"{folder}/{due.level}-{due.first}-{due.last}"
        chain = chain.paged(due, await files.put(name, due.encode()))
        reach("log.page.after_write")
    return chain


async def read_chain(chain: Chain[T], files: Files, kind: type[T], start: int, stop: int) -> AsyncIterator[T]:
    """The items from `start` to `stop - 1` that the chain has, in order."""
    for page in chain.pages:
        async for found in _read_page(page, files, kind, max(start, chain.first), stop):
            yield found
    for found in chain.tail[max(start - chain.tail_first, 0) : max(stop - chain.tail_first, 0)]:
        yield found


async def page_names(chain: Chain[Any], files: Files) -> AsyncIterator[str]:
    """The names of all pages that the chain refers to, pages of pages included."""
    waiting = list(chain.pages)
    while waiting:
        page = waiting.pop()
        yield page.file.name
        if page.level:
            items = _decode(await files.read(page.file), Page)
            waiting += [below for below in items if below.last >= chain.first]


async def _read_page(page: Page, files: Files, kind: type[T], start: int, stop: int) -> AsyncIterator[T]:
    if page.last < start or page.first >= stop:
        return
    content = await files.read(page.file)
    if page.level:
        for below in _decode(content, Page):
            async for found in _read_page(below, files, kind, start, stop):
                yield found
        return
    items = _decode(content, kind)
    for item in items[max(start - page.first, 0) : stop - page.first]:
        yield item


def _decode(content: bytes, kind: type[T]) -> list[T]:
    found = msgspec.json.decode(content)
    if found["format"] != FORMAT:
        raise ForeignState(f"a page of a log has format {found['format']}, and this release reads {FORMAT}")
    return msgspec.convert(found["items"], list[kind])  # type: ignore[valid-type]
