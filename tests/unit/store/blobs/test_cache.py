import fcntl
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tidemill.store.blobs import BlobCache, BlobMissing, BlobNoSpace, BlobRef, Blobs
from tidemill.store.blobs.format import BLOCK_BYTES, stored_bytes
from tidemill.store.blobs.local import LocalShelf, LocalStored
from tidemill.store.testing.blobs import sample

SIZE = 2 * BLOCK_BYTES + 100
ROOM_FOR_THREE = 3 * stored_bytes(SIZE)


@dataclass(frozen=True)
class Remote(LocalShelf):
    """A folder that plays a remote shelf: it notes which blobs are opened, and calls a hook at each read."""

    opened: list[str] = field(default_factory=list)
    during_reads: list[Callable[[], None]] = field(default_factory=list)

    def open(self, name: str) -> LocalStored:
        self.opened.append(name)
        with LocalShelf.open(self, name) as stored:
            return Watched(stored.path, os.dup(stored.fd), self.during_reads)


class Watched(LocalStored):
    def __init__(self, path: Path, fd: int, during_reads: list[Callable[[], None]]) -> None:
        super().__init__(path, fd)
        self.during_reads = during_reads

    def read_at(self, offset: int, length: int) -> bytes:
        for hook in self.during_reads:
            hook()
        return super().read_at(offset, length)


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    remote = Remote(tmp_path / "remote")
    remote.prepare()
    return remote


@pytest.fixture
def refs(remote: Remote) -> list[BlobRef]:
    """Five blobs, of which the cache holds three."""
    return [Blobs(remote).put(f"blob/{number}", content(number)) for number in range(5)]


@pytest.fixture
def cache(remote: Remote, tmp_path: Path) -> BlobCache:
    return BlobCache(Blobs(remote), tmp_path / "cache", ROOM_FOR_THREE)


def content(number: int) -> bytes:
    return sample(SIZE, number)


def use(cache: BlobCache, ref: BlobRef) -> bytes:
    with cache.map(ref) as mapped:
        return bytes(mapped.view())


def entry_file(tmp_path: Path, ref: BlobRef) -> Path:
    return LocalShelf(tmp_path / "cache").path(ref.digest)


def test_a_blob_is_fetched_once(cache: BlobCache, remote: Remote, refs: list[BlobRef]) -> None:
    assert [use(cache, refs[0]) for _ in range(3)] == [content(0)] * 3
    assert remote.opened == ["blob/0"]


def test_equal_content_under_two_names_is_fetched_once(
    cache: BlobCache, remote: Remote, refs: list[BlobRef]
) -> None:
    twin = Blobs(remote).put("twin", content(0))

    assert use(cache, refs[0]) == use(cache, twin) == content(0)
    assert remote.opened == ["blob/0"]


def test_empty_and_inline_blobs_pass_through(cache: BlobCache, remote: Remote) -> None:
    assert use(cache, Blobs(remote).put("empty", b"")) == b""
    assert use(cache, BlobRef.inline(b"content")) == b"content"


def test_a_missing_blob_is_missing_and_takes_no_room(
    cache: BlobCache, remote: Remote, refs: list[BlobRef]
) -> None:
    remote.delete("blob/0")

    with pytest.raises(BlobMissing):
        cache.map(refs[0])
    assert cache.used_bytes() == 0


def test_the_least_recently_used_leaves_first(cache: BlobCache, remote: Remote, refs: list[BlobRef]) -> None:
    for number in (0, 1, 2, 0, 3):
        use(cache, refs[number])
    remote.opened.clear()
    for number in (0, 2, 3, 1):
        use(cache, refs[number])

    assert remote.opened == ["blob/1"]


def test_the_folder_stays_within_its_bound_also_while_fetching(
    cache: BlobCache, remote: Remote, refs: list[BlobRef]
) -> None:
    seen: list[int] = []
    remote.during_reads.append(lambda: seen.append(cache.used_bytes()))
    for number in (0, 1, 2, 3, 4, 0, 1):
        use(cache, refs[number])

    assert max(seen) == cache.used_bytes() == ROOM_FOR_THREE


def test_an_entry_in_use_is_not_evicted(cache: BlobCache, remote: Remote, refs: list[BlobRef]) -> None:
    with cache.map(refs[0]):
        for number in (1, 2, 3, 4):
            use(cache, refs[number])
        remote.opened.clear()
        use(cache, refs[0])

    assert remote.opened == []


def test_a_view_keeps_its_entry_after_the_mapping_is_closed(
    cache: BlobCache, tmp_path: Path, refs: list[BlobRef]
) -> None:
    with cache.map(refs[0]) as mapped:
        view = mapped.view(0, 10)
    for number in (1, 2, 3):
        use(cache, refs[number])
    assert entry_file(tmp_path, refs[0]).exists()

    view.release()
    for number in (1, 2, 3):
        use(cache, refs[number])
    assert not entry_file(tmp_path, refs[0]).exists()


def test_no_room_left_by_what_is_in_use_is_said(
    cache: BlobCache, remote: Remote, refs: list[BlobRef]
) -> None:
    with cache.map(refs[0]), cache.map(refs[1]), cache.map(refs[2]):
        with pytest.raises(BlobNoSpace, match=f"{ROOM_FOR_THREE} are in use"):
            cache.map(refs[3])

    assert use(cache, refs[3]) == content(3)


def test_a_blob_larger_than_the_bound_is_refused_and_evicts_nothing(
    cache: BlobCache, remote: Remote, refs: list[BlobRef]
) -> None:
    use(cache, refs[0])

    with pytest.raises(BlobNoSpace):
        cache.map(Blobs(remote).put("large", bytes(ROOM_FOR_THREE)))
    assert cache.used_bytes() == stored_bytes(SIZE)


def test_a_blob_counts_once_while_it_is_published(
    cache: BlobCache, refs: list[BlobRef], monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int] = []
    link = os.link

    def link_and_look(source: Path, target: Path) -> None:
        link(source, target)
        used.append(cache.used_bytes())

    monkeypatch.setattr(os, "link", link_and_look)
    use(cache, refs[0])

    assert used[-1] == stored_bytes(SIZE)


def test_nobody_leases_while_room_is_made(
    cache: BlobCache, refs: list[BlobRef], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = LocalStored.lease

    def lease_while_locked(stored: LocalStored, now_ns: int) -> None:
        with (tmp_path / "cache" / "+room").open("r+b") as room, pytest.raises(BlockingIOError):
            fcntl.flock(room, fcntl.LOCK_EX | fcntl.LOCK_NB)
        lease(stored, now_ns)

    monkeypatch.setattr(LocalStored, "lease", lease_while_locked)

    assert use(cache, refs[0]) == content(0)


def test_a_restart_finds_the_entries(
    cache: BlobCache, remote: Remote, refs: list[BlobRef], tmp_path: Path
) -> None:
    use(cache, refs[0])
    restarted = BlobCache(Blobs(remote), tmp_path / "cache", ROOM_FOR_THREE)

    assert use(restarted, refs[0]) == content(0)
    assert remote.opened == ["blob/0"]


def test_a_smaller_bound_takes_hold_at_the_next_fetch(
    cache: BlobCache, remote: Remote, refs: list[BlobRef], tmp_path: Path
) -> None:
    for ref in refs[:3]:
        use(cache, ref)
    smaller = BlobCache(Blobs(remote), tmp_path / "cache", stored_bytes(SIZE))
    use(smaller, refs[3])

    assert smaller.used_bytes() == stored_bytes(SIZE)


def test_a_pickled_cache_shares_the_folder(cache: BlobCache, remote: Remote, refs: list[BlobRef]) -> None:
    cache.blobs = Blobs(LocalShelf(remote.root))
    again: BlobCache = pickle.loads(pickle.dumps(cache))
    use(cache, refs[0])
    remote.delete("blob/0")

    assert use(again, refs[0]) == content(0)


@pytest.mark.parametrize("size", [0, 10, SIZE])
def test_an_entry_cut_short_is_fetched_again(
    cache: BlobCache, remote: Remote, refs: list[BlobRef], tmp_path: Path, size: int
) -> None:
    use(cache, refs[0])
    os.truncate(entry_file(tmp_path, refs[0]), size)

    assert use(cache, refs[0]) == content(0)
    assert remote.opened == ["blob/0", "blob/0"]


def test_a_damaged_block_is_fetched_again_when_touched(
    cache: BlobCache, remote: Remote, refs: list[BlobRef], tmp_path: Path
) -> None:
    use(cache, refs[0])
    with entry_file(tmp_path, refs[0]).open("r+b") as file:
        file.seek(BLOCK_BYTES + 5)
        file.write(b"damage")

    with cache.map(refs[0]) as mapped, cache.map(refs[0]) as other:
        first = mapped.view(0, 10)
        assert remote.opened == ["blob/0"]
        assert mapped.view() == other.view() == content(0)
        assert first == content(0)[:10]
    assert remote.opened == ["blob/0", "blob/0"]


def test_eight_threads_fetch_once(cache: BlobCache, remote: Remote, refs: list[BlobRef]) -> None:
    start = threading.Barrier(8)

    def run(_: int) -> bytes:
        start.wait()
        return use(cache, refs[0])

    with ThreadPoolExecutor(8) as pool:
        contents = list(pool.map(run, range(8)))

    assert contents == [content(0)] * 8
    assert remote.opened == ["blob/0"]


def test_threads_that_want_more_than_fits_all_get_theirs(cache: BlobCache, refs: list[BlobRef]) -> None:
    def run(seed: int) -> list[bool]:
        return [use(cache, refs[number % 5]) == content(number % 5) for number in range(seed, seed + 20)]

    with ThreadPoolExecutor(3) as pool:
        right = list(pool.map(run, range(3)))

    assert right == [[True] * 20] * 3
    assert cache.used_bytes() <= ROOM_FOR_THREE


PROCESS = """
import os, sys
from pathlib import Path
from tidemill.store.blobs import BlobCache, Blobs, open_blobs
from tidemill.store.blobs.local import LocalShelf, LocalStored

class Remote(LocalShelf):
    def open(self, name):
        print("fetch", flush=True)
        with LocalShelf.open(self, name) as stored:
            return Halting(stored.path, os.dup(stored.fd))

class Halting(LocalStored):
    def read_at(self, offset, length):
        if offset == 0 and halt == "halt":  # the content, after what follows it: the draft is made
            print("halted", flush=True)
            sys.stdin.read()
        return super().read_at(offset, length)

remote, folder, max_bytes, halt = sys.argv[1:]
ref = open_blobs(remote).find("blob/0")
cache = BlobCache(Blobs(Remote(Path(remote))), Path(folder), int(max_bytes))
print("ready", flush=True)
sys.stdin.readline()
with cache.map(ref) as mapped:
    print(len(mapped.view()), flush=True)
"""


def start_process(remote: Remote, folder: Path, halt: str = "") -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROCESS, remote.root, folder, str(ROOM_FOR_THREE), halt],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    return process


def test_two_processes_fetch_once(remote: Remote, refs: list[BlobRef], tmp_path: Path) -> None:
    with (
        start_process(remote, tmp_path / "cache") as first,
        start_process(remote, tmp_path / "cache") as second,
    ):
        for process in (first, second):
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        said = [process.communicate()[0].split() for process in (first, second)]

    assert sorted(said) == [[str(SIZE)], ["fetch", str(SIZE)]]


@pytest.mark.crash
def test_a_process_killed_while_fetching_holds_no_room(
    cache: BlobCache, remote: Remote, refs: list[BlobRef], tmp_path: Path
) -> None:
    with start_process(remote, tmp_path / "cache", "halt") as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write("go\n")
        process.stdin.flush()
        assert [process.stdout.readline() for _ in range(2)] == ["fetch\n", "halted\n"]
        assert cache.used_bytes() == stored_bytes(SIZE)
        process.kill()

    assert use(cache, refs[0]) == content(0)
    assert cache.used_bytes() == stored_bytes(SIZE)
