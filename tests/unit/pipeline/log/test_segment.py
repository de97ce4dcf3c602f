from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tidemill.pipeline.errors import ForeignState
from tidemill.pipeline.log import segment
from tidemill.pipeline.log.file import FileRef
from tidemill.pipeline.log.segment import SegmentRef, read_segment, sum_of, write_segment
from tidemill.pipeline.zset import ZSet, concat, hash_rows, shard_of
from tidemill.store.blobs import BlobExists, Blobs, Mapped, open_blobs

SCHEMA = pa.schema([("auction", pa.int64()), ("note", pa.large_string())])


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return open_blobs(tmp_path, create=True)


def bids(count: int, start: int = 0) -> ZSet:
    numbers = np.arange(start, start + count)
    rows = pa.RecordBatch.from_arrays(
        [pa.array(numbers % 1000), pa.array([f"n{n}" for n in numbers], pa.large_string())], schema=SCHEMA
    )
    return ZSet(rows, numbers % 3 - 1)


def told(change: ZSet) -> list[tuple[object, ...]]:
    columns = [column.to_pylist() for column in change.rows.columns]
    return list(zip(*columns, change.weights.tolist(), strict=True))


@pytest.mark.parametrize("count", [0, 1, 1000, 60_000])
def test_all_shards_together_are_all_rows(blobs: Blobs, count: int) -> None:
    change = bids(count)
    ref = write_segment(blobs, "a", "bids", change, (0,))
    found = read_segment(blobs, ref)

    assert ref.rows == count
    assert found.schema == SCHEMA
    assert sorted(told(found)) == sorted(told(change))


def test_a_shard_has_its_rows_by_hash_and_those_of_a_key_in_the_order_they_came(blobs: Blobs) -> None:
    change = bids(60_000)
    ref = write_segment(blobs, "a", "bids", change, (0,))
    hashes = hash_rows(change.rows, (0,))

    for shard in (0, 7, 63):
        mine = np.flatnonzero(shard_of(hashes) == shard)
        expected = told(change.take(mine[np.argsort(hashes[mine], kind="stable")]))

        assert len(set(hashes[mine].tolist())) < len(mine)
        assert told(read_segment(blobs, ref, range(shard, shard + 1))) == expected


def test_ranges_of_shards_cut_the_rows_into_parts(blobs: Blobs) -> None:
    ref = write_segment(blobs, "a", "bids", bids(60_000), (0,))
    parts = [read_segment(blobs, ref, shards) for shards in (range(10), range(10, 10), range(10, 64))]

    assert told(concat(parts, SCHEMA)) == told(read_segment(blobs, ref))
    assert len(parts[1]) == 0


def test_only_the_bytes_of_the_shards_are_read(blobs: Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    ref = write_segment(blobs, "a", "bids", bids(200_000), (0,))
    viewed: list[int] = []
    true_view = Mapped.view

    def view(self: Mapped, offset: int = 0, length: int | None = None) -> memoryview:
        found = true_view(self, offset, length)
        viewed.append(len(found))
        return found

    monkeypatch.setattr(Mapped, "view", view)
    read_segment(blobs, ref, range(3, 4))

    assert sum(viewed) < ref.blob.size / 4


def test_any_arrow_reader_can_read_the_file(blobs: Blobs) -> None:
    ref = write_segment(blobs, "a", "bids", bids(100_000), (0,))
    table = pa.ipc.open_stream(blobs.read(ref.blob)).read_all()

    assert table.num_rows == 100_000
    assert table.column_names == ["auction", "note", "_weight"]


def test_without_a_key_rows_stay_as_they_are(blobs: Blobs) -> None:
    change = bids(40_000)
    ref = write_segment(blobs, "a", "top", change, None)

    assert told(read_segment(blobs, ref)) == told(change)
    assert len(read_segment(blobs, ref, range(1, 64))) == 0


def test_the_sum_knows_neither_order_nor_splitting(blobs: Blobs) -> None:
    change = bids(1000)
    whole = write_segment(blobs, "a", "top", change, None, summed=True)
    parts = [write_segment(blobs, f"b{n}", "top", bids(500, 500 * n), (0,), summed=True) for n in (0, 1)]

    assert whole.sum is not None
    assert (whole.sum - sum(part.sum or 0 for part in parts)) % 2**64 == 0
    assert sum_of(concat([change, change.negate()], SCHEMA)) == 0
    assert sum_of(bids(999)) != whole.sum


def test_the_same_again_is_fine_and_other_rows_are_not(blobs: Blobs) -> None:
    ref = write_segment(blobs, "a", "bids", bids(10), (0,))

    assert write_segment(blobs, "a", "bids", bids(10), (0,)) == ref
    with pytest.raises(BlobExists):
        write_segment(blobs, "a", "bids", bids(11), (0,))


def test_a_newer_format_is_refused(blobs: Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "FORMAT", 2)
    ref = write_segment(blobs, "a", "bids", bids(10), (0,))
    monkeypatch.undo()

    with pytest.raises(ForeignState, match="format 2"):
        read_segment(blobs, ref)


@pytest.mark.parametrize(
    "content", [b"nothing of ours, but long enough", pa.schema([]).serialize().to_pybytes()]
)
def test_what_is_no_segment_is_refused(blobs: Blobs, content: bytes) -> None:
    with pytest.raises(ForeignState, match="not a segment"):
        read_segment(blobs, SegmentRef("bids", 1, FileRef.of(blobs.put("x", content))))


def test_a_segment_of_another_table_is_refused(blobs: Blobs) -> None:
    ref = write_segment(blobs, "a", "bids", bids(10), (0,))

    with pytest.raises(ForeignState, match="'bids', not of 'asks'"):
        read_segment(blobs, SegmentRef("asks", ref.rows, ref.file))


def test_a_table_of_one_null_column_can_be_kept(blobs: Blobs) -> None:
    change = ZSet.of(pa.RecordBatch.from_arrays([pa.nulls(3)], names=["nothing"]), 2)

    assert told(read_segment(blobs, write_segment(blobs, "a", "t", change, (0,)))) == [(None, 2)] * 3
