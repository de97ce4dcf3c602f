"""Answers without an end come to one when the node leaves, so that nobody waits for them."""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

T = TypeVar("T")


async def until(leaving: asyncio.Event, stream: AsyncIterator[T]) -> AsyncIterator[T]:
    """What the stream gives, until it ends or the node leaves."""
    left = asyncio.ensure_future(leaving.wait())
    item: asyncio.Future[T] | None = None
    try:
        while True:
            item = asyncio.ensure_future(anext(stream))
            await asyncio.wait([item, left], return_when=asyncio.FIRST_COMPLETED)
            if not item.done():
                return
            try:
                given = item.result()
            except StopAsyncIteration:
                return
            yield given
    finally:
        left.cancel()
        if item is not None:
            item.cancel()
