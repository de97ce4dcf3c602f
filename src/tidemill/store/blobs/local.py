"""Blobs in a folder of this machine, or of a file system that several machines share.

    +blobs             says that this is a blob folder and of which format; its lock orders publish and delete
    +tmp/<random>      drafts, each locked by its writer for as long as it lives
    a/b+blob           the blob "a/b" (see `name`)

A draft is written, synced, then linked to its name: a link either appears whole or fails because the
name is taken. Files are never changed afterwards, only unlinked.
"""

import contextlib
import errno
import fcntl
import mmap
import os
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tidemill.base.ids import new_token
from tidemill.store.blobs.errors import BlobExists, BlobFormat, BlobMissing, BlobNoSpace, BlobUnavailable
from tidemill.store.blobs.format import read_blocks
from tidemill.store.blobs.name import BLOB_SUFFIX, decode, encode
from tidemill.store.blobs.shelf import Bytes, Entry

_MARKER = "+blobs"
_MARKER_TEXT = b"tidemill blobs 1\n"
_DRAFTS = "+tmp"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def os_errors(doing: str) -> Iterator[None]:
    """Raise what the operating system refuses as a `BlobUnavailable`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in _FULL:
            raise BlobNoSpace(f"cannot {doing}: {reason}") from error
        raise BlobUnavailable(f"cannot {doing}: {reason}") from error


@contextlib.contextmanager
def locked(path: Path, mode: int, flags: int = 0) -> Iterator[None]:
    """Hold a lock on a file, shared (`LOCK_SH`) or alone (`LOCK_EX`), between threads and processes."""
    with os_errors(f"lock {path}"):
        fd = os.open(path, os.O_RDWR | flags, 0o666)
    try:
        with os_errors(f"lock {path}"):
            fcntl.flock(fd, mode)
        yield
    finally:
        os.close(fd)


class KnownFolders:
    """Folders whose own names this process has made durable, all the way up; the last few of them.

    Each is kept open, so that one which a sweep removed and somebody made anew is told from the old one.
    """

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._open: dict[Path, int] = {}
        self._lock = threading.Lock()

    def __contains__(self, folder: Path) -> bool:
        with self._lock:
            fd = self._open.get(folder)
            if fd is None:
                return False
            try:
                return os.path.samestat(os.fstat(fd), folder.stat())
            except FileNotFoundError:
                return False

    def add(self, folder: Path) -> None:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with self._lock:
            gone = [self._open.pop(folder, None)]
            self._open[folder] = fd
            while len(self._open) > self._most:
                gone.append(self._open.pop(next(iter(self._open))))
        for old in gone:
            if old is not None:
                os.close(old)


_known = KnownFolders()


def _sync_folder(folder: Path) -> None:
    """Make durable what the folder names."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True)
class LocalShelf:
    """A shelf in a folder, which `prepare` makes. Without `durable`, a power cut may lose blobs."""

    root: Path
    durable: bool = True

    def __post_init__(self) -> None:
        # Resolved once, so that below it a path that resolves to another is a symbolic link of a stranger.
        object.__setattr__(self, "root", Path(os.path.realpath(self.root)))

    def prepare(self) -> None:
        """Make the folder a blob folder. Safe to repeat and to race."""
        with os_errors(f"create the blob folder {self.root}"):
            self.drafts.mkdir(parents=True, exist_ok=True)
            if not self.marker.exists():
                draft = self.drafts / new_token()
                try:
                    draft.write_bytes(_MARKER_TEXT)
                    # Whoever made the folder first may already have tidied our draft away.
                    with contextlib.suppress(FileExistsError, FileNotFoundError):
                        os.link(draft, self.marker)
                finally:
                    draft.unlink(missing_ok=True)
                if self.durable:
                    self.sync_folders([self.root])
        self.check()

    def check(self) -> None:
        """Raise `BlobUnavailable` unless this is a blob folder, `BlobFormat` if of another format.

        A folder that is not mounted here is no blob folder: nothing is written to what lies below it.
        """
        with os_errors(f"read the blob folder {self.root}"):
            try:
                text = self.marker.read_bytes()
            except FileNotFoundError:
                raise BlobUnavailable(f"{self.root} is not a blob folder, or is not mounted here") from None
        if text != _MARKER_TEXT:
            raise BlobFormat(
                f"the blob folder {self.root} is of a format unknown to this release: {text!r:.60}"
            )

    def create(self, name: str, *, durable: bool = True, reserve: int = 0) -> "LocalDraft":
        """The draft counts as `reserve` bytes from the start."""
        self.path(name)
        return LocalDraft(self, name, durable and self.durable, reserve)

    def sync(self, names: Iterable[str]) -> None:
        paths = {name: self.path(name) for name in names}
        for name in paths:
            with self.open(name) as stored, os_errors(f"sync blob {name!r}"):
                os.fsync(stored.fd)
        with os_errors(f"sync the blob folder {self.root}"):
            self.sync_folders(path.parent for path in paths.values())

    def open(self, name: str) -> "LocalStored":
        path = self.path(name)
        with os_errors(f"open blob {name!r}"):
            try:
                return LocalStored(path, os.open(path, os.O_RDONLY | os.O_NOFOLLOW))
            except FileNotFoundError:
                self.check()
                raise BlobMissing(f"no blob {name!r} in {self.root}") from None

    def entries(self, under: str = "") -> Iterator[Entry]:
        self.check()
        for item in self._walk(self._own(self.root / encode(under)) if under else self.root):
            if item.is_file(follow_symlinks=False) and item.name.endswith(BLOB_SUFFIX):
                found = item.stat(follow_symlinks=False)
                name = decode(os.path.relpath(item.path, self.root).removesuffix(BLOB_SUFFIX))
                yield Entry(name, found.st_size, found.st_mtime)

    def now(self) -> float:
        return time.time()

    def delete(self, name: str, older_than: float | None = None) -> bool:
        path = self.path(name)
        self.check()
        # Alone, so that nobody renews the age between our look at it and the deletion.
        with os_errors(f"delete blob {name!r}"), self.lock(fcntl.LOCK_EX):
            try:
                if older_than is not None and path.lstat().st_mtime >= older_than:
                    return False
                path.unlink()
            except FileNotFoundError:
                return False
            self._remove_empty(path.parent)
        return True

    def _remove_empty(self, folder: Path) -> None:
        """Remove the folder, and those above it, if nothing is left in them. Needs the lock, alone."""
        with contextlib.suppress(OSError):
            while folder != self.root:
                folder.rmdir()
                folder = folder.parent

    def tidy(self, older_than: float) -> int:
        """Also removes folders that are empty."""
        self.check()
        with os_errors(f"tidy the blob folder {self.root}"):
            removed = sum(_remove_abandoned(Path(item), older_than) for item in self._walk(self.drafts))
            folders = [Path(item) for item in self._walk(self.root) if item.is_dir(follow_symlinks=False)]
            for folder in reversed(folders):  # the innermost first
                with self.lock(fcntl.LOCK_EX), contextlib.suppress(OSError):
                    folder.rmdir()
        return removed

    def stored_bytes(self) -> int:
        """What blobs and drafts take together, also while a draft is being published."""
        # A draft that is being published has two links. Drafts come first, so that none is missed.
        found = (item for folder in (self.drafts, self.root) for item in self._walk(folder))
        files = (item for item in found if item.is_file(follow_symlinks=False))
        return sum({item.inode(): item.stat(follow_symlinks=False).st_size for item in files}.values())

    @property
    def marker(self) -> Path:
        return self.root / _MARKER

    @property
    def drafts(self) -> Path:
        return self.root / _DRAFTS

    def path(self, name: str) -> Path:
        """The file of a blob. Raises `BlobUnavailable` if a symbolic link leads it elsewhere."""
        path = self.root / (encode(name) + BLOB_SUFFIX)
        self._own(path.parent)
        return path

    def lock(self, mode: int) -> contextlib.AbstractContextManager[None]:
        return locked(self.marker, mode)

    def sync_folders(self, folders: Iterable[Path]) -> None:
        """Make durable what was linked in the folders, and the folders themselves up to the root."""
        synced: set[Path] = set()
        for folder in folders:
            new: list[Path] = []
            while folder.is_relative_to(self.root):
                if folder not in synced:
                    _sync_folder(folder)
                    synced.add(folder)
                if folder in _known:
                    break  # the folders above name it, and have been synced since
                new.append(folder)
                folder = folder.parent
            for made in new:
                _known.add(made)

    def _own(self, folder: Path) -> Path:
        if os.path.realpath(folder) != str(folder):
            raise BlobUnavailable(f"the way to the blob folder {folder} leads over a symbolic link")
        return folder

    def _walk(self, folder: Path | str) -> Iterator[os.DirEntry[str]]:
        """Everything below a folder, each folder before what it holds, without what is ours alone.

        What vanishes while we look is left out.
        """
        with os_errors(f"list {folder}"):
            try:
                with os.scandir(folder) as found:
                    items = [item for item in found if item.name not in (_MARKER, _DRAFTS)]
            except FileNotFoundError:
                return
        for item in items:
            with contextlib.suppress(FileNotFoundError):
                item.stat(follow_symlinks=False)  # remembered by the item
                yield item
            if item.is_dir(follow_symlinks=False):
                yield from self._walk(item.path)


class LocalDraft:
    """A file among the drafts, locked until it is published or discarded."""

    def __init__(self, shelf: LocalShelf, name: str, durable: bool, reserve: int) -> None:
        self._shelf = shelf
        self._name = name
        self._durable = durable
        self._path = shelf.drafts / new_token()
        shelf.check()
        with os_errors(f"write blob {name!r}"):
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX)
                os.ftruncate(self._fd, reserve)
            except BaseException:
                self.discard()
                raise

    def write(self, data: Bytes) -> None:
        view = memoryview(data)
        with os_errors(f"write blob {self._name!r}"):
            while view:
                view = view[os.write(self._fd, view) :]

    def publish(self, digest: str) -> None:
        path = self._shelf.path(self._name)
        with os_errors(f"publish blob {self._name!r}"):
            if self._durable:
                os.fsync(self._fd)
            # Shared, so that no sweep removes the folder or the blob that we find here.
            with self._shelf.lock(fcntl.LOCK_SH):
                path.parent.mkdir(parents=True, exist_ok=True)
                try:
                    os.link(self._path, path)
                except FileExistsError:
                    self._keep(digest)
            if self._durable:
                self._shelf.sync_folders([path.parent])

    def discard(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):  # what cannot be removed now is left to `tidy`
                self._path.unlink()
            os.close(fd)

    def _keep(self, digest: str) -> None:
        with self._shelf.open(self._name) as stored:
            if read_blocks(self._name, stored).digest != digest:
                raise BlobExists(f"blob {self._name!r} exists with other content")
            os.utime(stored.fd)
            if self._durable:  # the other writer may have done without
                os.fsync(stored.fd)


class LocalStored:
    """An open file of a shelf."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self.fd = fd
        self.size = os.fstat(fd).st_size

    def read_at(self, offset: int, length: int) -> bytes:
        with os_errors(f"read {self.path}"):
            data = os.pread(self.fd, length, offset)
            while len(data) < length and (more := os.pread(self.fd, length - len(data), offset + len(data))):
                data += more  # one call reads no more than 2 GiB
            return data

    def map(self, length: int) -> Bytes:
        if not length:
            return b""
        with os_errors(f"map {self.path}"):
            return memoryview(mmap.mmap(self.fd, length, access=mmap.ACCESS_READ))

    def lease(self, now_ns: int) -> None:
        """Lock the file, shared, until this and every mapping of it is gone, and set its time."""
        with os_errors(f"lease {self.path}"):
            fcntl.flock(self.fd, fcntl.LOCK_SH)
            os.utime(self.fd, ns=(now_ns, now_ns))

    def is_leased(self) -> bool:
        """Whether someone holds a lease or still publishes it. If not, nobody gets one before `close`."""
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False

    def is_current(self) -> bool:
        """Whether the path still leads to this very file."""
        try:
            return os.path.samestat(os.lstat(self.path), os.fstat(self.fd))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()


def _remove_abandoned(draft: Path, older_than: float) -> bool:
    """Remove a draft that is old and whose writer no longer holds its lock."""
    try:
        fd = os.open(draft, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(fd).st_mtime >= older_than:
            return False
        draft.unlink()
    except (BlockingIOError, FileNotFoundError):
        return False
    finally:
        os.close(fd)
    return True
