"""Frames, however they are cut on their way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.tasks.runner import Job
from tidemill.tasks.runner.wire import Answer, Frames, Order, Said, frame, read_answer, read_order


@given(st.lists(st.binary(max_size=50)), st.lists(st.integers(1, 20)))
def test_frames_come_out_whole_however_they_were_cut(results: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(frame(Answer(at, 0.5, 1, result)) for at, result in enumerate(results))
    frames, found = Frames(), []
    for size in [*cuts, len(stream)]:
        found += [read_answer(body) for body in frames.feed(stream[:size])]
        stream = stream[size:]

    assert found == [Answer(at, 0.5, 1, result) for at, result in enumerate(results)]


def test_an_order_is_read_as_it_was_given() -> None:
    order = Order(5, Job("id", 1, 2, "q", "plugin", "p", {"a": [1, None, "ü"]}, context={"b": 1}), "m:o")
    (body,) = Frames().feed(frame(order))

    assert read_order(body) == order


def test_progress_and_answers_are_told_apart() -> None:
    (body,) = Frames().feed(frame(Said(1, 50.0, "half")))
    assert read_answer(body) == Said(1, 50.0, "half")


def test_a_number_that_cannot_be_sent_is_refused() -> None:
    with pytest.raises(ValueError, match="serialize ints"):
        frame(Order(1, Job("id", 1, 1, "q", "plugin", "p", 2**70), None))
