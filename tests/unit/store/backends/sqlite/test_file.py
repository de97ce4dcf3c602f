"""What can happen to a file: a full disk, no permission, a folder in its place, a writer that is killed."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from tidemill.store import BadRequest, Claim, Collection, ReadOnly, Store, Unavailable, Write, eq, open_store

NOTES = Collection("notes")
NOBODY = 65534


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a small file system needs root")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


async def fill(store: Store) -> int:
    """Write until the disk is full; how many documents were acknowledged."""
    done = 0
    while True:
        try:
            await store.create(NOTES, f"{done:06}", {"text": "x" * 20_000})
        except ReadOnly:
            return done
        done += 1


async def test_a_full_disk_refuses_writes_loses_nothing_and_recovers(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 700_000)
    async with open_store(f"sqlite:///{small_disk}/store.db") as store:
        done = await fill(store)
        assert done > 0
        assert await store.count(NOTES) == done

        ballast.unlink()
        await store.create(NOTES, "room again", {})
        assert await store.count(NOTES) == done + 1


async def test_leases_are_not_granted_on_a_full_disk(small_disk: Path) -> None:
    async with open_store(f"sqlite:///{small_disk}/store.db") as store:
        await fill(store)
        (small_disk / "rest").write_bytes(b"x" * (os.statvfs(small_disk).f_bavail * 4096))
        with pytest.raises(Unavailable):
            await store.hold(NOTES, [f"lease-{at}" for at in range(500)], "me" * 200, 5_000)


@pytest.fixture
def read_only_file(tmp_path: Path) -> Iterator[Path]:
    """A store that this process may read but not write; root becomes somebody else for that."""

    async def make() -> None:
        async with open_store(f"sqlite:///{path}") as store:
            await store.create(NOTES, "a", {"n": 1})

    path = tmp_path / "store.db"
    asyncio.run(make())
    path.chmod(0o444)
    tmp_path.chmod(0o777)
    root = os.geteuid() == 0
    for folder in tmp_path.parents:
        if folder.stat().st_mode & 0o005 != 0o005 and folder.stat().st_uid == os.geteuid():
            folder.chmod(folder.stat().st_mode | 0o055)
    if root:
        os.seteuid(NOBODY)
    yield path
    if root:
        os.seteuid(0)


async def test_a_read_only_file_can_be_read_and_says_that_it_cannot_be_written(read_only_file: Path) -> None:
    async with open_store(f"sqlite:///{read_only_file}") as store:
        found = await store.get(NOTES, "a")
        assert found is not None
        assert found.body == {"n": 1}
        with pytest.raises(ReadOnly, match="cannot be written"):
            await store.create(NOTES, "b", {})


async def test_a_folder_in_place_of_the_file_is_said_clearly(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=str(tmp_path)):
        await open_store(f"sqlite:///{tmp_path}").open()


async def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_text("dear diary, " * 1000)
    with pytest.raises(BadRequest, match="not a sound SQLite database"):
        await open_store(f"sqlite:///{path}").open()

    assert path.read_text() == "dear diary, " * 1000


async def test_what_was_acknowledged_survives_the_kill_of_its_writer(tmp_path: Path) -> None:
    code = """
import asyncio, sys
from tidemill.store import Collection, open_store
async def main():
    async with open_store("sqlite:///" + sys.argv[1]) as store:
        for n in range(1_000_000):
            await store.create(Collection("notes"), f"{n:06}", {"n": n})
            print(n, flush=True)
asyncio.run(main())
"""
    path = tmp_path / "store.db"
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(path), stdout=asyncio.subprocess.PIPE
    )
    assert writer.stdout is not None
    last = -1
    while last < 200:
        last = int(await writer.stdout.readline())
    writer.send_signal(signal.SIGKILL)
    rest = (await writer.stdout.read()).split()
    await writer.wait()
    acknowledged = int(rest[-1]) + 1 if rest else last + 1
    async with open_store(f"sqlite:///{path}") as store:
        assert await store.count(NOTES) in (acknowledged, acknowledged + 1)


async def test_a_file_that_stays_locked_is_given_up_on_in_time(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with open_store(f"sqlite:///{path}", timeout_s=1.0) as store:
        await store.create(NOTES, "a", {})
        greedy = apsw.Connection(str(path))
        greedy.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="locked") as refused:
            await store.create(NOTES, "b", {})
        assert not refused.value.maybe_applied
        assert await store.count(NOTES) == 1

        greedy.execute("COMMIT")
        await store.create(NOTES, "b", {})


async def test_a_claim_that_finds_nothing_writes_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    async with open_store(url) as store, open_store(url) as other:
        await store.count(NOTES)
        reader = apsw.Connection(str(tmp_path / "store.db"))
        await other.create(NOTES, "elsewhere", {})
        before = reader.execute("PRAGMA data_version").get
        for _ in range(3):
            assert await store.claim(NOTES, Claim((eq("key", "nothing"),), "me", 1000)) == []

        assert reader.execute("PRAGMA data_version").get == before


async def test_processes_may_come_and_go_at_once(tmp_path: Path) -> None:
    """Whoever closes the file last takes its journal away, just as others open it."""
    code = """
import asyncio, sys
from tidemill.store import Collection, open_store
async def main():
    for n in range(15):
        async with open_store("sqlite:///" + sys.argv[1]) as store:
            await store.create(Collection("notes"), f"{sys.argv[2]}-{n}", {})
asyncio.run(main())
"""
    path = tmp_path / "store.db"
    visitors = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(path), str(at))
        for at in range(4)
    ]
    codes = [await visitor.wait() for visitor in visitors]
    async with open_store(f"sqlite:///{path}") as store:
        assert codes == [0, 0, 0, 0]
        assert await store.count(NOTES) == 60


async def test_a_renewal_gets_its_turn_beside_a_writer_that_never_pauses(tmp_path: Path) -> None:
    """The busy writer is another process in a tight loop; every renewal must come through meanwhile."""
    code = """
import asyncio, sys
from tidemill.store import Collection, Write, open_store
async def main():
    async with open_store("sqlite:///" + sys.argv[1]) as store:
        for n in range(1_000_000):
            keys = [f"{n}-{at}" for at in range(50)]
            await store.write([Write(Collection("notes"), key, {"x": "y" * 200}, None) for key in keys])
            if n == 20:
                print("busy", flush=True)
asyncio.run(main())
"""
    path = tmp_path / "store.db"
    async with open_store(f"sqlite:///{path}") as store:
        term = (await store.hold(NOTES, ["lease"], "me", 5_000))["lease"].term
        writer = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, str(path), stdout=asyncio.subprocess.PIPE
        )
        try:
            assert writer.stdout is not None
            await writer.stdout.readline()
            for _ in range(20):
                lease = (await store.renew(NOTES, {"lease": term}, 5_000))["lease"]
                assert lease.term == term
                assert lease.held_by("me")
        finally:
            writer.kill()
            await writer.wait()
        assert await store.count(NOTES) > 1000


async def test_a_change_nobody_announced_is_found_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a writer that died between its commit and its mark."""
    monkeypatch.setattr("tidemill.store.backends.sqlite.backend.BACKSTOP_S", 0.05)
    url = f"sqlite:///{tmp_path}/store.db"
    async with open_store(url) as one, open_store(url) as two:
        await two.create(NOTES, "a", {})
        monkeypatch.setattr(two._backend, "announce", lambda _: None)
        async with one.watch(NOTES, poll_s=60) as watch:
            while await one.count(NOTES) < 2:
                await two.write([Write(NOTES, "b", {}, None)])
                assert await watch.wait()


async def test_without_the_kernels_word_watchers_look_for_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemill.store.backends.sqlite.pulse.watch_file", lambda _: None)
    url = f"sqlite:///{tmp_path}/store.db"
    async with open_store(url) as one, open_store(url) as two:
        await two.create(NOTES, "a", {})
        async with one.watch(NOTES, poll_s=60) as watch:
            await two.create(NOTES, "b", {})
            while await one.count(NOTES) < 2:
                assert await watch.wait()
            assert await watch.wait()
