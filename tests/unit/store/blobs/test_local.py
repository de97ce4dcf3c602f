"""What only a folder can suffer: killed processes, full and read-only disks, links, strangers' files."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tidemill.store.blobs import BlobMissing, BlobNoSpace, Blobs, BlobUnavailable, open_blobs
from tidemill.store.blobs.format import BLOCK_BYTES
from tidemill.store.blobs.local import LocalShelf
from tidemill.store.testing.blobs import names

OLD = 1_000_000.0  # a time long past


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


@pytest.fixture
def blobs(folder: Path) -> Blobs:
    return open_blobs(folder, create=True)


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a small disk of its own, which really fills and really is read-only, also for root."""
    disk = tmp_path / "disk"

    def mount(options: str) -> Path:
        disk.mkdir(exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)]
        try:
            subprocess.run(command, capture_output=True, text=True, check=True)
        except (FileNotFoundError, subprocess.CalledProcessError) as error:
            pytest.skip(f"cannot mount a tmpfs here: {getattr(error, 'stderr', error)}")
        return disk

    yield mount
    if disk.is_mount():
        subprocess.run(["umount", "--lazy", disk], check=True)


@contextmanager
def child(script: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A Python process that has printed a line and waits; killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    assert process.stdout
    with process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def everything(folder: Path) -> list[str]:
    """The files that lie there, of whatever kind."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def grow_old(blobs: Blobs, name: str) -> None:
    assert isinstance(blobs.shelf, LocalShelf)
    os.utime(blobs.shelf.path(name), (OLD, OLD))


@pytest.mark.crash
def test_a_killed_writer_leaves_nothing_visible_and_a_sweep_removes_its_draft(
    blobs: Blobs, folder: Path
) -> None:
    script = """
import sys
from tidemill.store.blobs import open_blobs
with open_blobs(sys.argv[1]).create("a") as writer:
    writer.write(bytes(1_000_000))
    print("ready", flush=True)
    sys.stdin.read()
"""
    with child(script, folder) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    [draft] = (folder / "+tmp").iterdir()
    written = draft.stat().st_mtime

    assert draft.stat().st_size > 0
    assert (names(blobs), blobs.find("a")) == ([], None)
    assert blobs.sweep((), grace_s=60, now=written + 59).drafts == 0
    assert blobs.sweep((), grace_s=60, now=written + 61).drafts == 1
    assert everything(folder) == ["+blobs"]


@pytest.mark.crash
def test_a_writer_in_another_process_keeps_its_old_draft(blobs: Blobs, folder: Path) -> None:
    script = """
import sys
from tidemill.store.blobs import open_blobs
with open_blobs(sys.argv[1]).create("a") as writer:
    writer.write(bytes(1_000_000))
    print("ready", flush=True)
    sys.stdin.readline()
"""
    with child(script, folder) as process:
        assert blobs.sweep((), grace_s=0, now=time.time() + 1e6).drafts == 0
        process.communicate("go on\n")

    assert process.returncode == 0
    assert names(blobs) == ["a"]


def test_a_full_disk_is_said_and_leaves_nothing(mount: Callable[[str], Path]) -> None:
    disk = mount("size=2m")
    blobs = open_blobs(disk, create=True)
    ref = blobs.put("before", bytes(BLOCK_BYTES))

    with pytest.raises(BlobNoSpace, match="'large': No space left"):
        blobs.put("large", (bytes(BLOCK_BYTES) for _ in range(100)))
    assert everything(disk) == ["+blobs", "before+blob"]
    assert blobs.put("after", bytes(BLOCK_BYTES)).digest == ref.digest


def test_a_disk_that_was_full_before_is_said_and_leaves_nothing(mount: Callable[[str], Path]) -> None:
    disk = mount("size=1m")
    (disk / "+tmp").mkdir()
    with pytest.raises(OSError, match="No space left"):
        (disk / "filling").write_bytes(bytes(2_000_000))

    for _ in range(2):
        with pytest.raises(BlobNoSpace, match="create the blob folder"):
            open_blobs(disk, create=True)
    assert everything(disk) == ["filling"]


def test_a_file_size_limit_counts_as_no_space(blobs: Blobs, folder: Path) -> None:
    script = """
import resource, sys
from tidemill.store.blobs import BlobNoSpace, open_blobs
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
try:
    open_blobs(sys.argv[1]).put("large", bytes(2_000_000))
except BlobNoSpace:
    print("ready", flush=True)
"""
    with child(script, folder):
        pass

    assert everything(folder) == ["+blobs"]


def test_a_read_only_disk_still_reads(mount: Callable[[str], Path]) -> None:
    disk = mount("size=2m")
    blobs = open_blobs(disk, create=True)
    ref = blobs.put("a", b"content")
    mount("remount,ro")

    assert open_blobs(disk, create=True).read(ref) == b"content"
    with pytest.raises(BlobUnavailable, match="Read-only file system"):
        blobs.put("b", b"")
    with pytest.raises(BlobUnavailable, match="Read-only file system"):
        blobs.delete("a")
    assert everything(disk) == ["+blobs", "a+blob"]


def test_a_file_in_place_of_the_folder_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(BlobUnavailable, match="Not a directory"):
        open_blobs(tmp_path / "file")
    with pytest.raises(BlobUnavailable, match="Not a directory"):
        open_blobs(tmp_path / "file" / "below", create=True)


def test_a_folder_that_vanished_is_unavailable_and_not_empty(blobs: Blobs, folder: Path) -> None:
    ref = blobs.put("a", b"content")
    folder.rename(folder.with_name("elsewhere"))
    folder.mkdir()  # as a mount point is when nothing is mounted

    for verb in (blobs.read, blobs.open, blobs.map):
        with pytest.raises(BlobUnavailable, match="not a blob folder, or is not mounted"):
            verb(ref)
    with pytest.raises(BlobUnavailable):
        blobs.put("b", b"")
    with pytest.raises(BlobUnavailable):
        blobs.find("a")
    with pytest.raises(BlobUnavailable):
        blobs.delete("a")
    with pytest.raises(BlobUnavailable):
        list(blobs.entries())
    with pytest.raises(BlobUnavailable):
        blobs.sweep((), grace_s=0, now=time.time())
    assert everything(folder) == []


def test_links_do_not_lead_out_of_the_folder(blobs: Blobs, folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    ref = open_blobs(outside, create=True).put("secret", b"content")
    blobs.put("real", b"content")
    (folder / "link").symlink_to(outside)
    (folder / "secret+blob").symlink_to(outside / "secret+blob")

    with pytest.raises(BlobUnavailable):
        blobs.read(ref)
    with pytest.raises(BlobUnavailable, match="symbolic link"):
        blobs.put("link/new", b"content")
    with pytest.raises(BlobUnavailable, match="symbolic link"):
        list(blobs.entries("link"))
    assert names(blobs) == ["real"]
    assert everything(outside) == ["+blobs", "secret+blob"]


def test_a_folder_reached_over_a_link_is_fine(blobs: Blobs, folder: Path, tmp_path: Path) -> None:
    ref = blobs.put("a", b"content")
    (tmp_path / "link").symlink_to(folder)

    assert open_blobs(tmp_path / "link").read(ref) == b"content"


def test_strangers_files_are_neither_listed_nor_swept(blobs: Blobs, folder: Path) -> None:
    (folder / "README").write_text("not a blob")

    assert names(blobs) == []
    assert blobs.sweep((), grace_s=0, now=time.time() + 60).names == ()
    assert everything(folder) == ["+blobs", "README"]


def test_a_sweep_removes_folders_that_are_empty(blobs: Blobs, folder: Path) -> None:
    blobs.put("p/1/2/3", b"content")
    blobs.put("p/kept", b"content")
    blobs.sweep({"p/kept"}, grace_s=0, now=time.time() + 60)

    assert sorted(path.name for path in folder.rglob("*")) == ["+blobs", "+tmp", "kept+blob", "p"]


def test_a_deletion_removes_the_folders_that_it_leaves_empty(blobs: Blobs, folder: Path) -> None:
    blobs.put("p/1/2/3", b"content")
    blobs.put("p/kept", b"content")
    blobs.delete("p/1/2/3")
    blobs.put("p/1/2/3", b"content")
    blobs.delete("p/1/2/3")

    assert sorted(path.name for path in folder.rglob("*")) == ["+blobs", "+tmp", "kept+blob", "p"]


def test_publishing_again_makes_a_blob_young(blobs: Blobs) -> None:
    blobs.put("a", b"content")
    grow_old(blobs, "a")
    blobs.put("a", b"content")

    assert blobs.sweep((), grace_s=60, now=time.time()).names == ()


def test_a_blob_published_again_while_the_sweep_decides_is_spared(blobs: Blobs) -> None:
    class NobodyButSomeoneIsAboutTo:
        def __contains__(self, name: object) -> bool:
            blobs.put(str(name), b"content")
            return False

    blobs.put("a", b"content")
    grow_old(blobs, "a")

    assert blobs.sweep(NobodyButSomeoneIsAboutTo(), grace_s=60, now=time.time()).names == ()
    assert names(blobs) == ["a"]


def test_nobody_publishes_between_the_look_at_the_age_and_the_deletion(
    blobs: Blobs, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs.put("a", b"content")
    grow_old(blobs, "a")
    lstat = Path.lstat

    def lstat_while_locked(path: Path) -> os.stat_result:
        with (folder / "+blobs").open("r+b") as marker, pytest.raises(BlockingIOError):
            fcntl.flock(marker, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return lstat(path)

    monkeypatch.setattr(Path, "lstat", lstat_while_locked)

    assert blobs.sweep((), grace_s=60, now=time.time()).names == ("a",)


def test_the_grace_age_counts_from_the_publishing(blobs: Blobs, folder: Path) -> None:
    with blobs.create("a") as writer:
        writer.write(bytes(BLOCK_BYTES))
        [draft] = (folder / "+tmp").iterdir()
        os.utime(draft, (OLD, OLD))
    before = time.time() - 60

    assert [entry.published_at > before for entry in blobs.entries()] == [True]


def test_a_publish_that_succeeded_is_there_after_any_race_with_a_sweep(blobs: Blobs) -> None:
    start = threading.Barrier(2)

    def sweep() -> None:
        start.wait()
        blobs.sweep((), grace_s=60, now=time.time())

    def put() -> None:
        start.wait()
        blobs.put("p/q/a", b"content")

    with ThreadPoolExecutor(2) as pool:
        for _ in range(200):
            ref = blobs.put("p/q/a", b"content")
            grow_old(blobs, "p/q/a")
            for future in [pool.submit(sweep), pool.submit(put)]:
                future.result()
            assert blobs.read(ref) == b"content"


def test_a_folder_that_was_removed_and_made_again_is_made_durable_again(
    blobs: Blobs, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs.put("p/q/a", b"content")
    blobs.put("p/kept", b"content")
    blobs.delete("p/q/a")
    assert not (folder / "p/q").exists()
    synced: list[str] = []
    fsync = os.fsync

    def noted_fsync(fd: int) -> None:
        synced.append(Path(f"/dev/fd/{fd}").resolve().name)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    blobs.put("p/q/a", b"content")

    assert synced[1:] == ["q", "p"]


def test_missing_and_unavailable_are_told_apart(blobs: Blobs) -> None:
    ref = blobs.put("a", b"content")
    blobs.delete("a")

    with pytest.raises(BlobMissing, match="no blob 'a' in"):
        blobs.read(ref)


def test_content_is_synced_before_the_name_and_the_name_before_the_return(
    blobs: Blobs, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts: list[str] = []
    fsync, link = os.fsync, os.link

    def noted_fsync(fd: int) -> None:
        acts.append(f"sync {Path(f'/dev/fd/{fd}').resolve().relative_to(folder).parts[-1:]}")
        fsync(fd)

    def noted_link(source: Path, target: Path) -> None:
        acts.append("link")
        link(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "link", noted_link)
    folders = ["sync ('q',)", "sync ('p',)", "sync ()"]
    blobs.put("p/q/a", b"content")

    assert acts[0].startswith("sync")
    assert acts[1:] == ["link", *folders]

    acts.clear()
    blobs.put("p/q/a", b"content")  # who finds the name taken cannot know whether the other's sync is done

    assert acts[1:] == ["link", "sync ('a+blob',)", "sync ('q',)"]  # the folders above are known to name it

    acts.clear()
    with blobs.create("p/q/b", durable=False) as writer:
        writer.write(b"content")

    assert acts == ["link"]

    acts.clear()
    blobs.sync(["p/q/a", "p/q/b"])

    assert acts == ["sync ('a+blob',)", "sync ('b+blob',)", "sync ('q',)"]
