"""Manifests: durable before they can be named, the same when read again, refused when unknown."""

import os
from pathlib import Path

import msgspec
import pytest

from tidemill.pipeline.errors import ForeignState
from tidemill.pipeline.state.files import RunWriter
from tidemill.pipeline.state.manifest import Manifest, read_manifest, write_manifest
from tidemill.pipeline.state.spec import HASHES, Part, RunRef
from tidemill.store.blobs import BlobMissing, Blobs
from unit.pipeline.state.test_run import numbers, written


def test_a_manifest_reads_as_it_was_written(blobs: Blobs, writer: RunWriter) -> None:
    run = written(writer, numbers(100, 100))
    manifest = Manifest("p", 3, 42, {"t": 7}, {"digest": "abc"}, {"s": (run,)}, workers=3)
    ref = write_manifest(blobs, "p/t1/manifest", manifest)

    assert read_manifest(blobs, ref) == manifest
    assert write_manifest(blobs, "p/t1/manifest", manifest) == ref
    assert manifest.names == {run.name}
    assert manifest.shard_map == (range(21), range(21, 42), range(42, 64))


def test_hashes_at_the_end_of_the_range_survive_json(blobs: Blobs, writer: RunWriter) -> None:
    run = msgspec.structs.replace(written(writer, numbers(1, 1)), lo=HASHES - 2, hi=HASHES - 1)
    ref = write_manifest(blobs, "p/m", Manifest("p", 1, runs={"s": (run,)}))

    assert read_manifest(blobs, ref).runs["s"][0] == run
    assert run.shards == range(63, 64)


def test_runs_are_durable_before_the_manifest_is_there(
    blobs: Blobs, writer: RunWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = written(writer, numbers(10, 10)), written(writer, numbers(10, 10, 1))
    synced: list[str] = []
    fsync = os.fsync

    def noted(fd: int) -> None:
        synced.append(Path(f"/dev/fd/{fd}").resolve().name)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", noted)
    write_manifest(blobs, "p/m", Manifest("p", 1, runs={"s": (old, new)}), durable={old.name})

    assert synced[0] == new.name.rpartition("/")[2] + "+blob"
    assert all(old.name.rpartition("/")[2] not in name for name in synced)


def test_a_manifest_of_a_lost_run_is_not_written(blobs: Blobs) -> None:
    gone = RunRef("s", "p/t1/s1/gone", 1, "1-0", 0, 1, 1, 1)

    with pytest.raises(BlobMissing):
        write_manifest(blobs, "p/m", Manifest("p", 1, runs={"s": (gone,)}))
    assert blobs.find("p/m") is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"pipeline":"p","version":1,"format":2}', "has format 2; this release reads format 1"),
        (b'{"pipeline":"p","version":1,"shards":128}', "has 128 shards; this release has 64"),
        (b'["p"]', "has format \\?"),
    ],
)
def test_an_unknown_manifest_is_refused(blobs: Blobs, content: bytes, reason: str) -> None:
    ref = blobs.put("p/m", content)

    with pytest.raises(ForeignState, match=reason):
        read_manifest(blobs, ref)


def test_fields_of_a_newer_release_are_passed_over(blobs: Blobs) -> None:
    ref = blobs.put("p/m", b'{"pipeline":"p","version":1,"new":{"x":1}}')

    assert read_manifest(blobs, ref) == Manifest("p", 1)


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 64])
def test_parts_cover_every_hash_once(workers: int) -> None:
    parts = [Part(worker, workers) for worker in range(workers)]

    assert (parts[0].lo, parts[-1].hi) == (0, HASHES)
    assert all(part.hi == parts[index + 1].lo for index, part in enumerate(parts[:-1]))
    assert all(part.lo < part.hi for part in parts)


@pytest.mark.parametrize(("worker", "workers"), [(1, 1), (-1, 2), (0, 65), (0, 0)])
def test_a_part_that_cannot_be_is_refused(worker: int, workers: int) -> None:
    with pytest.raises(ValueError, match="no pipeline worker"):
        Part(worker, workers)
