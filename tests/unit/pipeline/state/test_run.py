"""Runs as files: what they hold, what is refused, and how much memory they take."""

import pickle
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tidemill.pipeline.errors import ForeignState, StepAborted
from tidemill.pipeline.state import run as run_module
from tidemill.pipeline.state.files import RunFiles, RunWriter, term_of
from tidemill.pipeline.state.order import Direction
from tidemill.pipeline.state.run import file_schema
from tidemill.pipeline.state.seal import Sealed, seal, spill
from tidemill.pipeline.state.spec import Part, RunRef, StateSpec
from tidemill.pipeline.state.spine import Spine
from tidemill.pipeline.state.stream import stream
from tidemill.pipeline.zset import ZSet, hash_rows
from tidemill.store.blobs import BlobDamaged, BlobMissing, BlobNoSpace, Blobs
from unit.pipeline.state.model import probe, scanned, zset

INTS = pa.schema([("k", pa.int64()), ("v", pa.int64())])
SPEC = StateSpec("s", INTS, (0,))


def numbers(count: int, modulo: int, seed: int = 0, shift: int = 0) -> ZSet:
    """Rows with random keys and ascending values, which start at `seed * shift`."""
    keys = np.random.default_rng(seed).integers(0, modulo, count)
    values = np.arange(count) + seed * shift
    return ZSet.of(pa.RecordBatch.from_arrays([pa.array(keys), pa.array(values)], schema=INTS))


def written(writer: RunWriter, z: ZSet, spec: StateSpec = SPEC) -> RunRef:
    spine = Spine(spec, Part(), writer.files)
    spine.add(z)
    [ref] = seal(spine, writer).added
    return ref


def test_a_reference_says_what_the_run_spans(writer: RunWriter) -> None:
    z = numbers(1_000, 300)
    hashes = hash_rows(z.rows, (0,))
    ref = written(writer, z)

    assert (ref.lo, ref.hi, ref.rows, ref.layer) == (hashes.min(), hashes.max(), 1_000, 1_000)
    assert (ref.state, ref.lane) == ("s", None)
    assert ref.name.startswith("p/t1/s1/s-0-0-")
    assert term_of(ref.name, "p") == 1


def test_a_key_hash_never_straddles_two_pieces(writer: RunWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "PIECE_ROWS", 100)
    ref = written(writer, numbers(5_000, 40))
    run = RunFiles(writer.files.blobs).open(ref, SPEC)

    assert len(run.pieces) > 20
    assert (run.firsts[1:] > run.lasts[:-1]).all()
    assert run.rows == 5_000


def test_columns_are_views_of_the_mapped_file(writer: RunWriter) -> None:
    ref = written(writer, numbers(100_000, 1_000_000))
    allocated = pa.total_allocated_bytes()
    run = RunFiles(writer.files.blobs).open(ref, SPEC)
    [piece] = run.pieces

    assert pa.total_allocated_bytes() - allocated < 100_000
    assert not piece.hashes.flags.owndata
    assert not piece.z.weights.flags.owndata
    assert piece.z.weights.ctypes.data % 8 == 0


def test_a_spine_without_additions_writes_nothing(writer: RunWriter, blobs: Blobs) -> None:
    spine = Spine(SPEC, Part(), writer.files)
    spine.add(ZSet.empty(INTS))
    spine.add(zset(INTS, [((1, 1), 1), ((1, 1), -1)]))

    assert seal(spine, writer) == Sealed()
    assert list(blobs.entries()) == []


def test_what_cancels_out_removes_its_runs(writer: RunWriter) -> None:
    spine = Spine(SPEC, Part(), writer.files)
    spine.add(zset(INTS, [((1, 1), 1)]))
    [ref] = seal(spine, writer).added
    spine.add(zset(INTS, [((1, 1), -1)]))

    assert seal(spine, writer) == Sealed((), (ref.name,))
    assert scanned(spine) == {}


def test_many_tiny_steps_leave_few_runs(files: RunFiles) -> None:
    spine = Spine(SPEC, Part(), files)
    refs: list[RunRef] = []
    for step in range(60):
        spine.add(zset(INTS, [((step, step), 1)]))
        sealed = seal(spine, RunWriter(files, "p", 1, step))
        refs = [ref for ref in refs if ref.name not in sealed.removed] + list(sealed.added)

    assert len(refs) == 1
    assert refs[0].rows == 60


def test_a_spilled_round_is_told_of_at_the_seal(writer: RunWriter) -> None:
    spine = Spine(SPEC, Part(), writer.files)
    spine.add(numbers(50_000, 50_000, seed=1))
    spill(spine, writer, limit_bytes=1 << 30)
    assert spine.memory_bytes > 0
    spill(spine, writer, limit_bytes=0)
    assert spine.memory_bytes == 0
    spine.add(numbers(50_000, 50_000, seed=2))
    sealed = seal(spine, writer)

    assert sorted(ref.rows for ref in sealed.added) == [50_000, 50_000]
    assert seal(spine, writer) == Sealed()


def test_rows_of_another_worker_are_refused(files: RunFiles) -> None:
    spine = Spine(SPEC, Part(0, 2), files)

    with pytest.raises(ValueError, match="another pipeline worker"):
        spine.add(numbers(100, 100))


def test_a_weight_that_does_not_fit_aborts_the_step(files: RunFiles) -> None:
    spine = Spine(SPEC, Part(), files)
    with pytest.raises(StepAborted, match="WEIGHT_OVERFLOW"):
        spine.add(zset(INTS, [((1, 1), 2**62), ((1, 1), 2**62)]))


@pytest.mark.parametrize("length", [1 << 20, (1 << 20) + 1])
def test_a_key_of_a_mebibyte_is_found(writer: RunWriter, length: int) -> None:
    schema = pa.schema([("k", pa.large_string()), ("v", pa.int64())])
    spec = StateSpec("texts", schema, (0,))
    long, other = "x" * length, "x" * (length - 1) + "y"
    spine = Spine(spec, Part(), writer.files)
    spine.add(zset(schema, [((long, 1), 1), ((other, 2), 1), (("", 3), 1)]))
    spine = Spine(spec, Part(), writer.files, seal(spine, writer).added)

    assert probe(spine, [(long, 0), (other, 0), (long[:-1], 0)]) == [{(long, 1): 1}, {(other, 2): 1}, {}]


def test_another_format_is_refused_with_both_numbers(
    writer: RunWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "FORMAT", b"7")
        ref = written(writer, numbers(10, 10))

    with pytest.raises(ForeignState, match=r"is a run of format 7; this release reads format 1"):
        RunFiles(writer.files.blobs).open(ref, SPEC)


@pytest.mark.parametrize(
    "other",
    [
        StateSpec("t", INTS, (0,)),
        StateSpec("s", INTS, (1,)),
        StateSpec("s", INTS, (0,), width=1),
        StateSpec("s", INTS, (0,), order=(1,)),
        StateSpec("s", pa.schema([("k", pa.int64()), ("v", pa.float64())]), (0,)),
    ],
    ids=["name", "key", "width", "order", "types"],
)
def test_the_run_of_another_state_is_refused(writer: RunWriter, other: StateSpec) -> None:
    ref = written(writer, numbers(10, 10))

    with pytest.raises(ForeignState, match="belongs to"):
        RunFiles(writer.files.blobs).open(ref, other)


def test_a_file_that_is_no_run_is_refused(writer: RunWriter, blobs: Blobs) -> None:
    blob = blobs.put("p/t1/s1/no", b"nothing of the kind")
    ref = RunRef("s", "p/t1/s1/no", blob.size, blob.digest, 0, 1, 1, 1)

    with pytest.raises(ForeignState, match="not the file of a run"):
        writer.files.open(ref, SPEC)


def test_a_run_describes_its_state(writer: RunWriter) -> None:
    downward = StateSpec("d", INTS, (0,), order=(1, 0), directions=(Direction(True, True), Direction()))
    ordered = StateSpec("a.1", INTS, (0, 1), order=(1,))
    for spec in (SPEC, ordered, downward, StateSpec("n", INTS, (1,), width=3)):
        z = numbers(10, 10) if spec.width is None else ZSet(numbers(3, 9).rows, np.ones((3, 3), np.int64))

        assert writer.files.spec(written(writer, z, spec)) == spec


def test_a_state_that_ascends_is_described_as_it_always_was() -> None:
    plain = file_schema(StateSpec("a", INTS, (0,), order=(1,)))

    assert plain.metadata[b"tidemill.state"] == (
        b'{"state": "a", "key": [0], "order": [1], "width": null, "columns": 2}'
    )


def test_damage_at_the_end_and_a_lost_file_are_found_when_opening(writer: RunWriter, blobs: Blobs) -> None:
    ref = written(writer, numbers(50_000, 50_000))
    path: Path = blobs.shelf.path(ref.name)  # type: ignore[attr-defined]
    content = bytearray(path.read_bytes())
    content[ref.size - 100] ^= 1
    path.write_bytes(content)

    with pytest.raises(BlobDamaged):
        RunFiles(blobs).open(ref, SPEC)
    blobs.delete(ref.name)
    with pytest.raises(BlobMissing):
        RunFiles(blobs).open(ref, SPEC)


def test_files_can_be_pickled_and_forget_on_request(writer: RunWriter) -> None:
    ref = written(writer, numbers(10, 10))
    run = writer.files.open(ref, SPEC)
    again = pickle.loads(pickle.dumps(writer.files))

    assert writer.files.open(ref, SPEC) is run
    assert again.open(ref, SPEC).rows == run.rows
    writer.files.keep(())
    assert writer.files.open(ref, SPEC) is not run


def test_a_full_disk_is_named_and_leaves_nothing(writer: RunWriter, blobs: Blobs) -> None:
    spine = Spine(SPEC, Part(), writer.files)
    spine.add(numbers(50_000, 50_000))
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, old[1]))
    try:
        with pytest.raises(BlobNoSpace, match="File too large"):
            seal(spine, writer)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)

    assert list(blobs.entries()) == []
    assert seal(spine, writer).added[0].rows == 50_000


@pytest.mark.parametrize("keys", [1 << 40, 1], ids=["many keys", "one key"])
def test_a_merge_larger_than_its_memory_streams(
    writer: RunWriter, monkeypatch: pytest.MonkeyPatch, keys: int
) -> None:
    runs = [
        writer.files.open(written(writer, numbers(200_000, keys, seed, 200_000)), SPEC) for seed in range(4)
    ]
    monkeypatch.setattr("tidemill.pipeline.state.stream.PIECE_ROWS", 10_000)
    monkeypatch.setattr(run_module, "PIECE_ROWS", 10_000)
    size = sum(run.bytes for run in runs)
    held = pa.total_allocated_bytes()
    most = 0
    total = 0
    for piece in stream(runs, SPEC, check=True):
        most = max(most, pa.total_allocated_bytes() - held)
        total += len(piece)

    assert total == 800_000
    assert size > 30_000_000
    assert most < size / 20


MERGE = """
import sys, threading
from pathlib import Path
import numpy as np, pyarrow as pa
from tidemill.pipeline.state import Merge, Part, RunFiles, RunWriter, Spine, StateSpec, run_merge, seal
from tidemill.pipeline.zset import ZSet
from tidemill.store.blobs import open_blobs

files = RunFiles(open_blobs(Path(sys.argv[1]), create=True))
spec = StateSpec("s", pa.schema([("k", pa.large_binary())]), (0,))
refs = []
for seed in range(int(sys.argv[2])):
    spine = Spine(spec, Part(), files)
    data = np.random.default_rng(seed).bytes(16 << 20)
    keys = pa.array([data[at : at + 4096] for at in range(0, len(data), 4096)], pa.large_binary())
    spine.add(ZSet.of(pa.RecordBatch.from_arrays([keys], schema=spec.schema)))
    refs += seal(spine, RunWriter(files, "p", 1, seed)).added
del spine, data, keys
[unit] = Merge(tuple(refs), (0,)).units("p", 1, 99)
done, peak = threading.Event(), [0]
def anonymous():
    status = open("/proc/self/status").read()
    return int(status.partition("RssAnon:")[2].split()[0]) // 1024
def watch():
    while not done.wait(0.002):
        peak[0] = max(peak[0], anonymous())
before = anonymous()
watcher = threading.Thread(target=watch)
watcher.start()
[merged] = run_merge(files, unit).added
done.set()
watcher.join()
assert merged.rows == 4096 * len(refs), merged
print(max(peak[0], anonymous()) - before)
"""


def test_the_memory_of_a_merge_does_not_grow_with_the_state(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        """The mebibytes that a merge takes at most, without mapped files."""
        done = subprocess.run(
            [sys.executable, "-c", MERGE, str(tmp_path / str(count)), str(count)],
            check=True, capture_output=True, text=True, timeout=100,
        )  # fmt: skip
        return int(done.stdout)

    small, large = peak(12), peak(36)

    assert large < small + 60
