"""Content that arrives piece by piece is kept whole, or not at all."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tidemill.store import open_store
from tidemill.store.blobs import INLINE_LIMIT, BlobRefused
from tidemill.tasks.blobs import Shelves, inline_value
from tidemill.tasks.intake import GATHERED, Intake

PIECE = os.urandom(300_000)


@pytest.fixture
async def shelves(tmp_path: Path) -> AsyncIterator[Shelves]:
    async with open_store("memory:") as store:
        yield Shelves(store, f"file://{tmp_path}/blobs")


async def names(shelves: Shelves) -> list[str]:
    return [entry.name for entry in (await shelves.open()).entries("tasks")]


def drafts(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "blobs").glob("*/+tmp/*"))


@pytest.mark.parametrize("size", [0, 1, INLINE_LIMIT])
async def test_small_content_lies_inside(shelves: Shelves, tmp_path: Path, size: int) -> None:
    async with Intake(shelves, "tasks/x/payload") as intake:
        await intake.write(PIECE[:size])
        value = await intake.finish()

    assert value == inline_value(PIECE[:size])
    assert not (tmp_path / "blobs").exists()


@pytest.mark.parametrize("pieces", [1, 4, 20])
async def test_large_content_becomes_a_blob(shelves: Shelves, tmp_path: Path, pieces: int) -> None:
    async with Intake(shelves, "tasks/x/payload") as intake:
        for _ in range(pieces):
            await intake.write(PIECE)
        value = await intake.finish()
        intake.keep()

    assert (await shelves.read(value), intake.size) == (PIECE * pieces, len(PIECE) * pieces)
    assert (await names(shelves), drafts(tmp_path)) == (["tasks/x/payload"], [])


@pytest.mark.parametrize("finished", [True, False])
async def test_what_is_not_kept_leaves_nothing(shelves: Shelves, tmp_path: Path, finished: bool) -> None:
    async with Intake(shelves, "tasks/x/payload") as intake:
        for _ in range(2 * GATHERED // len(PIECE)):
            await intake.write(PIECE)
        if finished:
            await intake.finish()

    assert (await names(shelves), drafts(tmp_path)) == ([], [])


async def test_who_is_cancelled_meanwhile_leaves_nothing(shelves: Shelves, tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def receive() -> None:
        async with Intake(shelves, "tasks/x/payload") as intake:
            while True:
                await intake.write(PIECE)
                if intake.size > 2 * GATHERED:
                    begun.set()

    receiving = asyncio.create_task(receive())
    await begun.wait()
    receiving.cancel()
    await asyncio.gather(receiving, return_exceptions=True)

    assert (await names(shelves), drafts(tmp_path)) == ([], [])


async def test_what_cannot_be_kept_is_an_error(shelves: Shelves) -> None:
    async with Intake(shelves, "tasks/../payload") as intake:
        await intake.write(PIECE)
        with pytest.raises(BlobRefused):
            await intake.finish()
