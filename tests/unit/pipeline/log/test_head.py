from msgspec.structs import replace

from tidemill.pipeline.errors import SequenceGap
from tidemill.pipeline.log.head import PRODUCERS, RECEIPTS, Entry, Head, Receipt, add, trim
from tidemill.pipeline.log.listing import Listing


def draft(producer: str | None = None, sequence: int | None = None, rows: int = 1) -> Entry:
    return Entry("id", Listing(), ("bids",), rows, 10, producer, sequence)


def after(*drafts: Entry, head: Head | None = None) -> Head:
    grown, answers = add(head or Head(), drafts, 7)
    assert all(isinstance(answer, Receipt) for answer in answers)
    return grown


def answer(head: Head, producer: str, sequence: int | None) -> Receipt | SequenceGap:
    grown, [found] = add(head, [draft(producer, sequence)], 7)
    if isinstance(found, SequenceGap) or found.repeated:
        assert grown == head
    return found


def test_appends_get_offsets_in_order() -> None:
    head, answers = add(after(draft()), [draft(), draft()], 7)

    assert answers == [Receipt(1), Receipt(2)]
    assert [(entry.offset, entry.at) for entry in head.entries.tail] == [(0, 7), (1, 7), (2, 7)]


def test_a_repeat_gets_the_receipt_of_the_first_time() -> None:
    head = after(draft("p", 0), draft(), draft("p", 1), draft("p", 2))

    assert answer(head, "p", 0) == Receipt(0, repeated=True)
    assert answer(head, "p", 1) == Receipt(2, repeated=True)
    assert answer(head, "p", 2) == Receipt(3, repeated=True)
    assert answer(head, "p", 3) == Receipt(4)


def test_a_repeat_within_one_group_is_a_repeat() -> None:
    _, answers = add(Head(), [draft("p", 1), draft("p", 1), draft("p", 2)], 7)

    assert answers == [Receipt(0), Receipt(0, repeated=True), Receipt(1)]


def test_a_gap_is_refused_alone() -> None:
    head, answers = add(Head(), [draft("p", 0), draft("p", 2), draft("q", 0)], 7)

    assert answers[0] == Receipt(0)
    assert isinstance(answers[1], SequenceGap)
    assert answers[2] == Receipt(1)
    assert head.entries.next == 2


def test_a_new_producer_begins_with_zero_or_one() -> None:
    assert answer(Head(), "p", 0) == Receipt(0)
    assert answer(Head(), "p", 1) == Receipt(0)
    assert isinstance(answer(Head(), "p", 2), SequenceGap)
    assert isinstance(answer(Head(), "p", None), SequenceGap)


def test_an_old_number_is_forgotten_and_refused() -> None:
    head = after(*(draft("p", n) for n in range(RECEIPTS + 1)))

    assert answer(head, "p", 1) == Receipt(1, repeated=True)
    assert isinstance(answer(head, "p", 0), SequenceGap)


def test_the_producer_that_was_silent_longest_is_forgotten() -> None:
    head = after(draft("first", 0), draft("second", 0), draft("first", 1))
    for n in range(PRODUCERS - 1):
        head = after(draft(f"p{n}", 0), head=head)

    assert len(head.producers) == PRODUCERS
    assert answer(head, "first", 1) == Receipt(2, repeated=True)
    assert isinstance(answer(head, "second", 5), SequenceGap)


def test_a_receipt_outlives_the_append() -> None:
    head = trim(after(draft("p", 0), draft(), draft()), 2)

    assert [entry.offset for entry in head.entries.tail] == [2]
    assert answer(head, "p", 0) == Receipt(0, repeated=True)
    assert trim(head, 1) == head


def test_an_append_of_several_tables_is_one_entry() -> None:
    entry = replace(draft(), tables=("bids", "asks"))

    assert after(entry).entries.tail[0].tables == ("bids", "asks")
