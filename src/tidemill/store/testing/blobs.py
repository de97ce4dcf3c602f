"""The promises of blobs, as cases that every shelf passes.

A backend runs them by giving a fixture:

    class TestFolder(BlobSuite):
        @pytest.fixture
        def rig(self, tmp_path):
            return FolderRig(open_blobs(tmp_path, create=True))
"""

import io
import json
import multiprocessing
import pickle
import random
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import BinaryIO, Protocol

import pytest

from tidemill.store.blobs import (
    INLINE_LIMIT,
    BlobDamaged,
    BlobExists,
    BlobMissing,
    BlobRef,
    BlobRefused,
    Blobs,
)
from tidemill.store.blobs.format import BLOCK_BYTES
from tidemill.store.blobs.name import NAME_LIMIT

SIZES = (0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES + 17)

ODD_NAMES = (
    "plain",
    "a/b/c.arrow",
    "a",
    "a/b",
    "A",
    "a+blob",
    "a+/b",
    "%61",
    "...",
    ".hidden/..x",
    "with space/and\\backslash?*:|<>\"'",
    "+tmp/x",
    "+blobs",
    "Grüße/日本語/🌊",
    "\u00e9",  # é as one character
    "e\u0301",  # é as two
    "x" * NAME_LIMIT,
    "日" * (NAME_LIMIT // 3),
    "deep/" * 100 + "leaf",
)

REFUSED_NAMES = (
    "", "/", "/etc/passwd", "a/", "a//b", ".", "..", "../up", "a/../b", "a/./b", "nul\0", "line\nbreak",
    "bell\x07", "\x85", "lone\ud800", "x" * (NAME_LIMIT + 1), "日" * (NAME_LIMIT // 3 + 1),
)  # fmt: skip


class BlobRig(Protocol):
    """An empty place for blobs, and hands to damage what lies there."""

    @property
    def blobs(self) -> Blobs: ...

    def flip(self, name: str, offset: int) -> None:
        """Change one stored byte; a negative offset counts from the end."""

    def cut(self, name: str, size: int) -> None:
        """Keep only so many of the stored bytes."""


def sample(size: int, seed: int = 0) -> bytes:
    """Bytes that look random and are the same each time."""
    return random.Random(seed).randbytes(size)


def publish(blobs: Blobs, name: str, content: bytes) -> bool:
    """Whether the name holds the content now. Of several who try, other processes included, one wins."""
    try:
        blobs.put(name, content)
    except BlobExists:
        return False
    return True


def names(blobs: Blobs, under: str = "") -> list[str]:
    return sorted(entry.name for entry in blobs.entries(under))


class BlobSuite:
    """Cases by theme: reading back, publishing, damage, names, sweeping."""

    @pytest.fixture
    def blobs(self, rig: BlobRig) -> Blobs:
        return rig.blobs

    @pytest.mark.parametrize("size", SIZES)
    def test_every_way_of_reading_gives_back_what_was_put(self, blobs: Blobs, size: int) -> None:
        content = sample(size)
        ref = blobs.put("a/b", content)

        assert (ref.name, ref.size, ref.content) == ("a/b", size, None)
        assert blobs.read(ref) == content
        with blobs.open(ref) as reader:
            assert b"".join(iter(lambda: reader.read(100_000), b"")) == content
        with blobs.map(ref) as mapped:
            assert mapped.view() == content

    def test_bytes_files_and_iterables_give_the_same_reference(self, blobs: Blobs) -> None:
        content = sample(2 * BLOCK_BYTES + 5)
        sources: list[Callable[[], bytes | bytearray | memoryview | BinaryIO | Iterable[bytes]]] = [
            lambda: content,
            lambda: bytearray(content),
            lambda: memoryview(content),
            lambda: io.BytesIO(content),
            lambda: (content[at : at + 7_001] for at in range(0, len(content), 7_001)),
            lambda: [b"", content, b""],
        ]

        assert len({blobs.put("same", source()) for source in sources}) == 1

    def test_ranges_and_seeks_read_across_blocks(self, blobs: Blobs) -> None:
        content = sample(3 * BLOCK_BYTES)
        ref = blobs.put("a", content)
        offset, length = BLOCK_BYTES - 10, BLOCK_BYTES + 20

        assert blobs.read_range(ref, offset, length) == content[offset : offset + length]
        assert blobs.read_range(ref, len(content), 0) == b""
        with blobs.open(ref) as reader:
            reader.seek(-5, io.SEEK_END)
            assert reader.read() == content[-5:]
            reader.seek(7)
            assert (reader.read(3), reader.tell()) == (content[7:10], 10)
        with blobs.map(ref) as mapped:
            assert mapped.view(offset, length) == content[offset : offset + length]

    def test_a_range_beyond_the_end_is_an_error_and_not_a_short_answer(self, blobs: Blobs) -> None:
        ref = blobs.put("a", b"0123456789")

        for offset, length in ((5, 6), (11, 0), (-1, 2), (0, -1)):
            with pytest.raises(ValueError, match="not within"):
                blobs.read_range(ref, offset, length)
            with blobs.map(ref) as mapped, pytest.raises(ValueError, match="not within"):
                mapped.view(offset, length)

    def test_large_content_streams_both_ways_in_bounded_memory(self, blobs: Blobs) -> None:
        chunk, count = sample(1024 * 1024), 40
        tracemalloc.start()
        try:
            ref = blobs.put("large", (chunk for _ in range(count)))
            with blobs.open(ref) as reader:
                total = sum(len(part) for part in iter(lambda: reader.read(len(chunk)), b""))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

        assert total == ref.size == count * len(chunk)
        assert peak < 8 * len(chunk)

    def test_small_content_lies_in_the_reference(self, blobs: Blobs) -> None:
        content = sample(INLINE_LIMIT)
        ref = blobs.put("a", io.BytesIO(content), inline=True)

        assert ref.name is None
        assert names(blobs) == []
        assert blobs.read(ref) == content
        assert blobs.read_range(ref, 10, 5) == content[10:15]
        with blobs.map(ref) as mapped:
            assert mapped.view() == content

    def test_content_past_the_limit_is_stored_although_inline_was_asked(self, blobs: Blobs) -> None:
        content = sample(INLINE_LIMIT + 1)
        ref = blobs.put("a", (content[at : at + 999] for at in range(0, len(content), 999)), inline=True)

        assert (ref.name, blobs.read(ref)) == ("a", content)

    @pytest.mark.parametrize("inline", [True, False])
    def test_references_survive_json(self, blobs: Blobs, inline: bool) -> None:
        ref = blobs.put("a", b"content", inline=inline)
        again = BlobRef.from_json(json.loads(json.dumps(ref.to_json())))

        assert again == ref
        assert blobs.read(again) == b"content"

    def test_a_pickled_handle_serves_the_same_blobs(self, blobs: Blobs) -> None:
        ref = blobs.put("a", b"content")

        assert pickle.loads(pickle.dumps(blobs)).read(ref) == b"content"

    def test_nothing_is_visible_before_the_writer_ends(self, blobs: Blobs) -> None:
        with blobs.create("a") as writer:
            writer.write(sample(2 * BLOCK_BYTES))
            assert (names(blobs), blobs.find("a")) == ([], None)

        assert names(blobs) == ["a"]
        assert blobs.find("a") == writer.ref

    def test_a_writer_that_fails_leaves_nothing(self, blobs: Blobs) -> None:
        writer = blobs.create("a")
        writer.write(sample(2 * BLOCK_BYTES))
        with pytest.raises(ZeroDivisionError), writer:
            raise ZeroDivisionError
        blobs.create("b").close()

        assert names(blobs) == []
        assert blobs.sweep((), grace_s=0, now=time.time() + 60).drafts == 0
        with pytest.raises(ValueError, match="not published"):
            _ = writer.ref

    def test_a_source_that_fails_leaves_nothing(self, blobs: Blobs) -> None:
        def failing() -> Iterable[bytes]:
            yield sample(BLOCK_BYTES)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            blobs.put("a", failing())
        assert names(blobs) == []

    def test_the_same_content_again_is_a_success(self, blobs: Blobs) -> None:
        assert blobs.put("a", b"content") == blobs.put("a", b"content")
        assert names(blobs) == ["a"]

    def test_other_content_under_a_name_is_refused(self, blobs: Blobs) -> None:
        ref = blobs.put("a", b"first")

        with pytest.raises(BlobExists):
            blobs.put("a", b"second")
        assert blobs.read(ref) == b"first"
        assert blobs.sweep({"a"}, grace_s=0, now=time.time() + 60).drafts == 0

    def test_of_racing_threads_one_wins(self, blobs: Blobs) -> None:
        contents = [sample(100_000, seed) for seed in range(8)]
        for attempt in range(5):
            name, start = f"race/{attempt}", threading.Barrier(len(contents))

            def run(content: bytes, name: str = name, start: threading.Barrier = start) -> bool:
                start.wait()
                return publish(blobs, name, content)

            with ThreadPoolExecutor(len(contents)) as pool:
                won = list(pool.map(run, contents))

            assert won.count(True) == 1
            found = blobs.find(name)
            assert found is not None
            assert blobs.read(found) == contents[won.index(True)]

    def test_of_racing_processes_one_wins_and_equal_content_wins_twice(self, blobs: Blobs) -> None:
        contents = [sample(100_000, 1), sample(100_000, 2)]
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
            differing = [
                [pool.submit(publish, blobs, f"race/{turn}", content) for content in contents]
                for turn in range(10)
            ]
            equal = [pool.submit(publish, blobs, f"equal/{turn // 2}", contents[0]) for turn in range(10)]

            for turn, pair in enumerate(differing):
                won = [future.result() for future in pair]
                found = blobs.find(f"race/{turn}")
                assert won.count(True) == 1
                assert found is not None
                assert blobs.read(found) == contents[won.index(True)]
            assert all(future.result() for future in equal)

    def test_what_is_not_there_is_missing(self, blobs: Blobs) -> None:
        ref = blobs.put("a", b"content")
        blobs.delete("a")
        blobs.delete("a")

        assert blobs.find("a") is None
        for read in (blobs.read, blobs.open, blobs.map):
            with pytest.raises(BlobMissing):
                read(ref)

    def test_who_reads_goes_on_after_deletion(self, blobs: Blobs) -> None:
        content = sample(3 * BLOCK_BYTES)
        ref = blobs.put("a", content)
        with blobs.open(ref) as reader, blobs.map(ref) as mapped:
            start = reader.read(10)
            blobs.delete("a")

            assert start + reader.read() == content
            assert mapped.view() == content

    def test_views_outlive_the_mapping(self, blobs: Blobs) -> None:
        content = sample(BLOCK_BYTES)
        with blobs.map(blobs.put("a", content)) as mapped:
            view = mapped.view(10, 20)
        blobs.delete("a")

        assert view == content[10:30]
        with pytest.raises(ValueError, match="closed"):
            mapped.view()

    @pytest.mark.parametrize("size", [1, BLOCK_BYTES, 2 * BLOCK_BYTES + 3])
    @pytest.mark.parametrize("offset", [0, -1, -10, -30])
    def test_a_flipped_byte_fails_a_whole_read(self, rig: BlobRig, size: int, offset: int) -> None:
        ref = rig.blobs.put("a", sample(size))
        rig.flip("a", offset)

        with pytest.raises(BlobDamaged, match="'a'"):
            rig.blobs.read(ref)

    def test_a_stream_ends_in_an_error_before_the_first_wrong_byte(self, rig: BlobRig) -> None:
        content = sample(4 * BLOCK_BYTES)
        ref = rig.blobs.put("a", content)
        rig.flip("a", 2 * BLOCK_BYTES + 5)
        taken = bytearray()
        with rig.blobs.open(ref) as reader, pytest.raises(BlobDamaged, match="block 2"):
            taken.extend(byte for part in iter(lambda: reader.read(1000), b"") for byte in part)

        assert content.startswith(taken)
        assert len(taken) <= 2 * BLOCK_BYTES

    def test_a_map_finds_a_flipped_byte_in_the_touched_block_only(self, rig: BlobRig) -> None:
        content = sample(4 * BLOCK_BYTES)
        ref = rig.blobs.put("a", content)
        rig.flip("a", 2 * BLOCK_BYTES + 5)
        with rig.blobs.map(ref) as mapped:
            assert mapped.view(0, 2 * BLOCK_BYTES) == content[: 2 * BLOCK_BYTES]
            assert mapped.view(3 * BLOCK_BYTES) == content[3 * BLOCK_BYTES :]
            for _ in range(2):
                with pytest.raises(BlobDamaged, match="block 2"):
                    mapped.view(2 * BLOCK_BYTES + 100, 1)

    def test_an_unchecked_view_leaves_damage_to_a_later_check(self, rig: BlobRig) -> None:
        content = sample(2 * BLOCK_BYTES)
        ref = rig.blobs.put("a", content)
        rig.flip("a", 5)
        with rig.blobs.map(ref) as mapped:
            view = mapped.view(check=False)

            assert view[6:] == content[6:]
            assert view[5] != content[5]
            with pytest.raises(BlobDamaged, match="block 0"):
                mapped.view()
            with pytest.raises(ValueError, match="not within"):
                mapped.view(len(content), 1, check=False)

    def test_blobs_can_be_published_first_and_made_durable_later(self, blobs: Blobs) -> None:
        with blobs.create("p/a", durable=False) as writer:
            writer.write(b"content")

        assert blobs.read(writer.ref) == b"content"
        for _ in range(2):
            blobs.sync(["p/a"])
        assert blobs.put("p/a", b"content") == writer.ref
        with pytest.raises(BlobMissing, match="p/b"):
            blobs.sync(["p/a", "p/b"])

    @pytest.mark.parametrize("kept", [0, 1, 30, BLOCK_BYTES, 2 * BLOCK_BYTES + 3])
    def test_a_blob_cut_short_is_damaged(self, rig: BlobRig, kept: int) -> None:
        ref = rig.blobs.put("a", sample(2 * BLOCK_BYTES + 3))
        rig.cut("a", kept)

        for read in (rig.blobs.read, rig.blobs.open, rig.blobs.map):
            with pytest.raises(BlobDamaged):
                read(ref)

    def test_content_other_than_referred_is_damaged(self, blobs: Blobs) -> None:
        ref = blobs.put("a", b"first")
        blobs.delete("a")
        blobs.put("a", b"other")

        with pytest.raises(BlobDamaged, match="not the content that its reference names"):
            blobs.read(ref)

    @pytest.mark.parametrize("name", ODD_NAMES, ids=lambda name: repr(name[:12]))
    def test_odd_names_hold_what_was_put(self, blobs: Blobs, name: str) -> None:
        ref = blobs.put(name, name.encode())

        assert blobs.read(ref) == name.encode()
        assert names(blobs) == [name]

    def test_odd_names_do_not_collide(self, blobs: Blobs) -> None:
        refs = [blobs.put(name, name.encode()) for name in ODD_NAMES]

        assert [blobs.read(ref) for ref in refs] == [name.encode() for name in ODD_NAMES]
        assert names(blobs) == sorted(ODD_NAMES)

    @pytest.mark.parametrize("name", REFUSED_NAMES, ids=lambda name: ascii(name[:12]))
    def test_names_that_are_not_allowed_are_refused(self, blobs: Blobs, name: str) -> None:
        with pytest.raises(BlobRefused):
            blobs.put(name, b"")
        with pytest.raises(BlobRefused):
            blobs.find(name)
        with pytest.raises(BlobRefused):
            blobs.delete(name)
        with pytest.raises(BlobRefused):
            blobs.read(BlobRef(0, blobs.put("empty", b"").digest, name))

    def test_a_listing_is_of_a_folder_and_not_of_a_prefix(self, blobs: Blobs) -> None:
        for name in ("p/1", "p/1/x", "p/10", "p2/1", "p"):
            blobs.put(name, b"12345")

        assert names(blobs, "p") == ["p/1", "p/1/x", "p/10"]
        assert names(blobs, "p/1") == ["p/1/x"]
        assert names(blobs, "absent") == []
        assert all(entry.stored_bytes >= 5 for entry in blobs.entries())

    def test_a_sweep_spares_the_referred_and_the_young(self, blobs: Blobs) -> None:
        for name in ("kept/1", "gone/1", "gone/2"):
            blobs.put(name, b"content")
        published = max(entry.published_at for entry in blobs.entries())

        assert blobs.sweep({"kept/1"}, grace_s=60, now=published + 59).names == ()
        assert sorted(blobs.sweep({"kept/1"}, grace_s=60, now=published + 61).names) == ["gone/1", "gone/2"]
        assert names(blobs) == ["kept/1"]

    def test_ages_are_told_by_the_clock_of_the_shelf(self, blobs: Blobs) -> None:
        before = blobs.now()
        blobs.put("a", b"content")
        [entry] = blobs.entries()

        assert before - 1 <= entry.published_at <= blobs.now() + 1  # some count in whole seconds

    def test_a_sweep_stays_in_its_folder(self, blobs: Blobs) -> None:
        blobs.put("p/1", b"content")
        blobs.put("q/1", b"content")

        assert blobs.sweep((), grace_s=0, now=time.time() + 60, under="p").names == ("p/1",)
        assert names(blobs) == ["q/1"]

    def test_a_swept_name_can_be_published_again(self, blobs: Blobs) -> None:
        blobs.put("p/deep/1", b"content")
        blobs.sweep((), grace_s=0, now=time.time() + 60)
        ref = blobs.put("p/deep/1", b"other")

        assert blobs.read(ref) == b"other"

    def test_a_sweep_spares_the_draft_of_a_living_writer(self, blobs: Blobs) -> None:
        with blobs.create("a") as writer:
            writer.write(sample(2 * BLOCK_BYTES))
            assert blobs.sweep((), grace_s=0, now=time.time() + 1e6).drafts == 0

        assert blobs.read(writer.ref) == sample(2 * BLOCK_BYTES)
