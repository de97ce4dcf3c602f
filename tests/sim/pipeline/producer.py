"""A producer: appends numbered rows, each until it is acknowledged, through crashes of its own."""

import asyncio
import random
from collections.abc import Callable

import msgspec

from sim.network import SimBackend
from sim.node import TIMEOUT_S
from sim.pipeline.checks import PipelineChecks
from sim.pipeline.owner import KEY
from sim.pipeline.wire import SimFiles
from sim.pipeline.worker import Rows
from sim.world import SimLoop
from tidemill.base.errors import TidemillError
from tidemill.pipeline.log.head import LogHead
from tidemill.pipeline.log.segment import SegmentRef
from tidemill.store import Store

BLOCK = 8
"""So many appends may be made at once; every third block of them goes without numbers."""


class Diary:
    """What a producer remembers over a crash: the rows it wants appended, and how far it got."""

    def __init__(self, name: str, source: random.Random, count: int) -> None:
        self.name = name
        self.rows: list[Rows] = [self._draw(source) for _ in range(count)]
        self.done = 0

    def _draw(self, source: random.Random) -> Rows:
        bad = source.random() < 0.06
        rows: Rows = [
            (f"k{source.randrange(12)}", source.choice([-2, -1, 1, 1, 1, 3]))
            for _ in range(source.randint(1, 5))
        ]
        return [*rows, ("k0", None)] if bad else rows


class SimProducer:
    """One process of a producer."""

    def __init__(
        self,
        diary: Diary,
        loop: SimLoop,
        connect: Callable[[], SimBackend],
        files: SimFiles,
        checks: PipelineChecks,
    ) -> None:
        self.diary = diary
        self.loop = loop
        self.name = diary.name
        self._connect = connect
        self._files = files
        self._checks = checks
        self._random = random.Random(loop.world.random.getrandbits(64))

    def boot(self) -> None:
        self.loop.create_task(self._main())

    async def _main(self) -> None:
        store = Store(self._connect(), timeout_s=TIMEOUT_S, source=self._random)
        head = LogHead(store, KEY, self._files, folder="log", clock=lambda: 0, source=self._random)
        while self.diary.done < len(self.diary.rows):
            try:
                await self._append(head)
            except TidemillError:
                await asyncio.sleep(0.3)
            await asyncio.sleep(self._random.random())

    async def _append(self, head: LogHead) -> None:
        """Append the next rows, some of them at once; those that were acknowledged are done."""
        at = self.diary.done
        block = at - at % BLOCK
        stop = min(at + self._random.choice([1, 1, BLOCK]), block + BLOCK, len(self.diary.rows))
        numbered = block // BLOCK % 3 != 2
        segments = [await self._publish(number) for number in range(at, stop)]
        if not numbered:  # never tried twice, as nobody could tell
            self.diary.done = stop
        outcomes = await asyncio.gather(
            *(
                self._append_one(head, segment, number if numbered else None)
                for number, segment in enumerate(segments, at - at // (3 * BLOCK) * BLOCK)
            ),
            return_exceptions=True,
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            if numbered:
                self.diary.done += 1

    async def _publish(self, number: int) -> SegmentRef:
        rows = self.diary.rows[number]
        ref = await self._files.put(f"log/{self.name}/{number}", msgspec.json.encode(rows))
        return SegmentRef("rows", len(rows), ref)

    async def _append_one(self, head: LogHead, segment: SegmentRef, sequence: int | None) -> None:
        producer = None if sequence is None else self.name
        receipt = await head.append([segment], producer=producer, sequence=sequence)
        self._checks.acknowledged(receipt.offset, segment.file.name)
