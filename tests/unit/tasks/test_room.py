"""How many tasks of a queue a node has room for."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tidemill.tasks.room import MOST_AHEAD, Room


def seen(slots: int, **took_s: float) -> Room:
    room = Room(slots)
    for queue, seconds in took_s.items():
        room.took(queue, seconds)
    return room


def test_of_a_queue_that_nobody_knows_no_more_is_taken_than_can_be_begun() -> None:
    room = seen(4)

    assert room.left("new", {}) == 4
    assert room.left("new", {"new": 3}) == 1
    assert room.left("new", {"new": 4}) == 0


def test_of_a_quick_queue_more_is_taken_than_runs_at_a_time() -> None:
    room = seen(2, quick=0.001)

    assert room.left("quick", {}) == 202
    assert room.left("quick", {"quick": 200}) == 2
    assert room.left("quick", {"quick": 300}) == 0
    assert seen(2, quick=1e-9).left("quick", {}) == 2 + MOST_AHEAD


def test_quick_tasks_at_hand_keep_no_slow_one_from_its_slot() -> None:
    assert seen(2, quick=0.001, slow=5.0).left("slow", {"quick": 200}) == 2


def test_no_quick_task_is_taken_while_slow_ones_have_all_slots() -> None:
    assert seen(2, quick=0.001, slow=5.0).left("quick", {"slow": 2}) == 0


def test_a_queue_that_turns_slow_is_soon_known_to_be() -> None:
    room = seen(2, queue=0.001)
    for _ in range(3):
        room.took("queue", 0.5)

    assert not room.is_quick("queue")


@given(
    st.integers(0, 8),
    st.dictionaries(st.sampled_from("abc"), st.floats(0, 10), min_size=1),
    st.lists(st.sampled_from("abcd"), max_size=20),
    st.sampled_from("abcd"),
)
def test_slow_tasks_never_outnumber_slots(
    slots: int, took_s: dict[str, float], held: list[str], queue: str
) -> None:
    room = seen(slots, **took_s)
    left = room.left(queue, Counter(held))
    slow = [name for name in [*held, *[queue] * left] if not room.is_quick(name)]

    assert left >= 0
    assert len(slow) <= max(slots, sum(not room.is_quick(name) for name in held))
