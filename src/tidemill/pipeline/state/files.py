"""The files of a pipeline's runs: their names, writing them, opening them.

    <folder>/t<term>/s<step>/<state>-<stage>-<worker>-<random>

The term in the name lets a sweep tell what a former owner left behind. Files are not durable before
`Blobs.sync`: between two versions the log is what must survive.
"""

import itertools
import threading
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace

from tidemill.base.ids import new_token
from tidemill.pipeline.state.piece import Piece
from tidemill.pipeline.state.run import Run, read_run, read_spec, write_run
from tidemill.pipeline.state.spec import RunRef, StateSpec
from tidemill.store.blobs import BlobCache, Blobs, Mapped

_OPEN_RUNS = 4096


class RunFiles:
    """Opens and writes runs; keeps what it opened, as a file never changes.

    Can be pickled; safe between threads.
    """

    def __init__(self, blobs: Blobs, cache: BlobCache | None = None) -> None:
        """`cache` keeps the files of remote blobs on the local disk."""
        self.blobs = blobs
        self._cache = cache
        self._open: dict[str, Run] = {}
        self._lock = threading.Lock()

    def open(self, ref: RunRef, spec: StateSpec) -> Run:
        """The run, mapped: reading it costs what is touched.

        Raises `ForeignState` for the file of another state or format, `BlobMissing` when it is gone, and
        `BlobDamaged` when its end is damaged; damage elsewhere is found by `Run.check`.
        """
        with self._lock:
            run = self._open.pop(ref.name, None)
        if run is None:
            run = read_run(self._map(ref), ref.name, spec)
        with self._lock:
            self._open[ref.name] = run  # the least recently used comes first
            if len(self._open) > _OPEN_RUNS:
                del self._open[next(iter(self._open))]
        return run

    def spec(self, ref: RunRef) -> StateSpec:
        """The state that the run belongs to, as its file says."""
        with self._map(ref) as mapped:
            return read_spec(mapped, ref.name, aligned=ref.lane is None)

    def verify(self, ref: RunRef) -> None:
        """Raise `BlobDamaged` unless every byte of the file is what was written."""
        with self._map(ref) as mapped:
            mapped.view()

    def keep(self, names: Container[str]) -> None:
        """Let go of all other runs, so that files which are deleted free their space."""
        with self._lock:
            self._open = {name: run for name, run in self._open.items() if name in names}

    def write(self, name: str, pieces: Iterable[Piece], spec: StateSpec, lane: int | None) -> RunRef | None:
        """Write ascending pieces as one run, held one piece at a time; None if there are no rows.

        On an error, `BlobNoSpace` for a full disk among them, nothing is left behind.
        """
        seen = _Seen()
        source = seen.watch(pieces)
        first = next(source, None)
        if first is None:
            return None
        with self.blobs.create(name, durable=False) as writer:
            write_run(writer, itertools.chain((first,), source), spec)
        blob = writer.ref
        return RunRef(
            spec.name, name, blob.size, blob.digest, seen.lo, seen.hi, seen.rows, layer=seen.rows, lane=lane
        )

    def _map(self, ref: RunRef) -> Mapped:
        return (self._cache or self.blobs).map(ref.blob)

    def __reduce__(self) -> tuple[type, tuple[Blobs, BlobCache | None]]:
        return RunFiles, (self.blobs, self._cache)


@dataclass(frozen=True, slots=True)
class RunWriter:
    """Writes the runs of one task: what it writes is named after the term, step, stage and worker."""

    files: RunFiles
    folder: str
    term: int
    step: int
    stage: int | str = 0
    worker: int = 0

    def write(self, pieces: Iterable[Piece], spec: StateSpec, lane: int | None = None) -> RunRef | None:
        """As `RunFiles.write`, under a name that nobody ever had."""
        place = f"{self.folder}/t{self.term}/s{self.step}"
        name = f"{place}/{spec.name}-{self.stage}-{self.worker}-{new_token()[:13]}"
        return self.files.write(name, pieces, spec, lane)

    def at(self, step: int) -> "RunWriter":
        """The same for another step."""
        return replace(self, step=step)


def term_of(name: str, folder: str) -> int | None:
    """The term in the name of a file below the folder, if it has one."""
    part = name.removeprefix(folder + "/").partition("/")[0]
    return int(part[1:]) if part.startswith("t") and part[1:].isascii() and part[1:].isdigit() else None


class _Seen:
    """Notes what passes: how many rows, from which hash to which."""

    def __init__(self) -> None:
        self.rows = self.lo = self.hi = 0

    def watch(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        for piece in pieces:
            if not self.rows:
                self.lo = int(piece.hashes[0])
            self.hi = int(piece.hashes[-1])
            self.rows += len(piece)
            yield piece
