"""Three processes share the files of a folder; one of them is killed at work, and nothing is lost.

python examples/03_partitions.py
"""

import asyncio
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from tidemill.cluster import Timing, Windowed, Work, taking_part

FILES = 30
LEASE = Timing(2.0)


class Folder:
    """The tasks: one for each file that has no result yet. What is finished is known by its result."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def more(self, room: int, known: Collection[str]) -> Mapping[str, bytes]:
        names = [path.name for path in sorted(self._folder.glob("*.txt"))]
        left = [name for name in names if name not in known and not self._result(name).exists()]
        return {name: str(self._folder / name).encode() for name in left[:room]}

    async def finished(self, names: Sequence[str]) -> None:
        print(f"  done: {' '.join(names)}", flush=True)

    def _result(self, name: str) -> Path:
        return self._folder / f"{name}.count"


async def count_words(work: Work) -> None:
    """The handler. It may be run twice when its node is lost, so its result is put in place in one act."""
    path = Path(work.task.decode())
    count = 0
    for at, line in enumerate(await asyncio.to_thread(read_lines, path)):
        if work.stopping:
            return
        count += len(line.split())
        await work.report({"line": at + 1})
        await asyncio.sleep(0.05)
    work.fence()  # raises when the partition has passed on
    await asyncio.to_thread(publish, path, count, work.grant.term)


def read_lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def publish(path: Path, count: int, term: int) -> None:
    draft = path.with_name(f"{path.name}.{term}")
    draft.write_text(str(count))
    draft.replace(path.with_name(f"{path.name}.count"))


def counted(folder: Path) -> int:
    return len(list(folder.glob("*.count")))


async def member(url: str, name: str, folder: Path) -> None:
    async with taking_part(
        url,
        name,
        {"words": count_words},
        slots=3,
        duties=lambda store, fence: [Windowed(store, "words", fence, Folder(folder), poll_s=1.0)],
        timing=LEASE,
        partition_timing=LEASE,
    ):
        done = 0
        while done < FILES:
            done = await asyncio.to_thread(counted, folder)
            await asyncio.sleep(0.2)


def run(url: str, name: str, folder: str) -> None:
    asyncio.run(member(url, name, Path(folder)))


def main() -> int:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for at in range(FILES):
            (folder / f"{at:02d}.txt").write_text("some words on a line\n" * 10)
        url = f"sqlite:///{place}/store.db"
        names = ("ada", "bob", "eve")
        members = [multiprocessing.Process(target=run, args=(url, name, place)) for name in names]
        for one in members:
            one.start()
        members[0].join(timeout=2.0)
        print("ada is killed", flush=True)
        members[0].kill()
        for one in members[1:]:
            one.join()
        done = counted(folder)
        print(f"{done} of {FILES} files are counted")
        return os.EX_OK if done == FILES else os.EX_SOFTWARE


if __name__ == "__main__":
    sys.exit(main())
