import pytest
from msgspec.structs import replace

from tidemill.pipeline.errors import Forgotten, NoSuchName, NotNow
from tidemill.pipeline.log.head import Entry
from tidemill.pipeline.log.listing import Listing
from tidemill.pipeline.log.root import Failure, Root, StepRecord, Version
from tidemill.pipeline.step import (
    Limits,
    abort,
    assign,
    blocked,
    complete,
    discard,
    pending,
    to_replay,
    unfillable,
)

FRESH = Root("p", {})
LIMITS = Limits(rows=100)
BAD = Failure("[DIVIDE_BY_ZERO] Division by zero", "top", "select")


def entries(*rows: int) -> list[Entry]:
    return [
        Entry("id", Listing(), ("bids",), count, 10, offset=offset, at=1) for offset, count in enumerate(rows)
    ]


def assigned(root: Root, log: list[Entry], limits: Limits = LIMITS) -> Root:
    return assign(root, log[root.position :], limits, clock=5)


def taken(root: Root) -> tuple[int, ...]:
    assert root.under_way is not None
    return root.under_way.offsets


def done(root: Root) -> Root:
    assert root.under_way is not None
    return complete(root, root.under_way.number, Listing())


def aborted(root: Root, failure: Failure = BAD) -> Root:
    assert root.under_way is not None
    return abort(root, root.under_way.number, failure)


def test_a_step_takes_appends_up_to_its_rows() -> None:
    log = entries(40, 40, 20, 1)
    first = assigned(FRESH, log)
    second = assigned(done(first), log)

    assert taken(first) == (0, 1, 2)
    assert first.under_way is not None
    assert first.under_way.rows_in == 100
    assert taken(second) == (3,)
    assert done(second).position == 4


def test_an_append_that_is_larger_than_a_step_is_taken_alone() -> None:
    log = entries(1000, 1)

    assert taken(assigned(FRESH, log)) == (0,)


def test_a_step_takes_a_bounded_number_of_appends() -> None:
    assert taken(assigned(FRESH, entries(0, 0, 0), Limits(appends=2))) == (0, 1)


def test_an_empty_step_is_numbered_too() -> None:
    root = assigned(done(assigned(FRESH, [])), [])

    assert root.under_way is not None
    assert root.under_way.number == 1
    assert taken(root) == ()


def test_the_clock_of_a_step_is_never_behind_that_of_the_one_before() -> None:
    root = assign(done(assign(FRESH, [], LIMITS, clock=9)), [], LIMITS, clock=7)
    later = assign(done(root), [], LIMITS, clock=11)

    assert [record.clock for record in later.steps.tail] == [9, 9, 11]


def test_a_step_under_way_is_not_assigned_anew() -> None:
    root = assigned(FRESH, entries(1))

    assert assign(root, entries(1, 1), LIMITS, clock=99, fills=("x",)) == root


def test_only_the_step_under_way_can_be_settled() -> None:
    root = assigned(FRESH, entries(1))

    with pytest.raises(ValueError, match="step 1 is not under way"):
        complete(root, 1, Listing())
    with pytest.raises(ValueError, match="step 0 is not under way"):
        abort(done(root), 0, BAD)


def test_appends_of_an_aborted_step_are_tried_again_one_at_a_time() -> None:
    log = entries(1, 1, 1, 1)
    root = aborted(assigned(FRESH, log[:3]))
    tried = []
    for _ in range(4):
        root = assigned(root, log)
        tried.append(taken(root))
        root = done(root)

    assert tried == [(0,), (1,), (2,), (3,)]
    assert root.blamed == ()


def test_after_the_retried_appends_steps_are_full_again() -> None:
    log = entries(1, 1, 1, 1)
    root = done(assigned(aborted(assigned(FRESH, log[:1])), log))

    assert taken(assigned(root, log)) == (1, 2, 3)


def test_an_append_that_fails_alone_blocks_those_after_it() -> None:
    log = entries(1, 1, 1)
    root = aborted(assigned(FRESH, log))
    assert blocked(root) is None

    root = aborted(assigned(done(assigned(root, log)), log))
    found = blocked(root)

    assert found is not None
    assert (found.start, found.stop) == (1, 2)
    assert taken(assigned(root, log)) == (1,)


def test_an_append_that_is_left_of_a_group_may_pass() -> None:
    log = entries(1, 1)
    root = discard(aborted(assigned(FRESH, log)), 1, 2)

    assert blocked(root) is None
    assert blocked(aborted(assigned(root, log))) is not None


def test_pending_tells_what_is_held_against_each() -> None:
    log = entries(1, 1, 1, 1)
    root = aborted(assigned(FRESH, log[:3]))
    worse = Failure("worse")
    root = aborted(assigned(root, log), worse)

    found = pending(root, log)

    assert [(item.entry.offset, item.step, item.failure) for item in found] == [
        (0, 1, worse),
        (1, 0, BAD),
        (2, 0, BAD),
        (3, None, None),
    ]


def test_steps_and_pending_appends_are_shown_in_a_line() -> None:
    log = entries(3, 4)
    root = aborted(assigned(FRESH, log))

    [record] = root.steps.tail
    assert repr(record) == (
        "StepRecord(number=0, state='aborted', appends=2, rows_in=7, seconds=0.000, "
        "failure='[DIVIDE_BY_ZERO] Division by zero')"
    )
    [first, _] = pending(root, log)
    assert repr(first) == (
        "Pending(offset=0, tables='bids', rows=3, step=0, failure='[DIVIDE_BY_ZERO] Division by zero')"
    )
    assert repr(pending(FRESH, log)[1]) == "Pending(offset=1, tables='bids', rows=4)"


def test_a_discarded_append_is_passed_over_and_recorded() -> None:
    log = entries(1, 1, 1)
    root = aborted(assigned(aborted(assigned(FRESH, log)), log))
    root = discard(discard(root, 0, 3), 0, 3)
    assert [item.entry.offset for item in pending(root, log)] == [1, 2]
    assert blocked(root) is None

    root = assigned(root, log)

    assert taken(root) == (1,)
    assert root.under_way is not None
    assert root.under_way.skipped == (0,)
    assert root.under_way.rows_in == 1
    assert done(root).discarded == ()
    assert done(root).position == 2


def test_when_all_is_discarded_the_step_is_empty_and_passes_them() -> None:
    log = entries(1, 1)
    root = done(assigned(discard(discard(FRESH, 1, 2), 0, 2), log))

    assert root.position == 2
    assert root.steps.tail[0].offsets == ()


def test_a_discarded_append_inside_a_step_is_left_out() -> None:
    log = entries(1, 1, 1)

    assert taken(assigned(discard(FRESH, 1, 3), log)) == (0, 2)


def test_only_what_is_pending_can_be_discarded() -> None:
    log = entries(1, 1)
    under_way = assigned(FRESH, log[:1])

    with pytest.raises(NotNow, match="under way"):
        discard(under_way, 0, 2)
    with pytest.raises(NoSuchName, match="not pending"):
        discard(done(under_way), 0, 2)
    with pytest.raises(NoSuchName, match="not pending"):
        discard(under_way, 2, 2)


def test_an_empty_step_that_is_aborted_blames_nobody() -> None:
    root = aborted(assigned(FRESH, []))

    assert root.blamed == ()
    assert root.last == 1


def test_a_log_that_was_trimmed_too_far_is_noticed() -> None:
    with pytest.raises(Forgotten, match="append 0"):
        assign(FRESH, entries(1, 1)[1:], LIMITS, clock=1)


def test_replay_leaves_out_what_was_aborted_and_keeps_what_is_under_way() -> None:
    log = entries(1, 1)
    root = done(assigned(FRESH, log[:1]))
    root = aborted(assigned(root, log))
    root = assign(root, log[1:], LIMITS, clock=9, fills=("view",))
    records = root.steps.tail

    assert [record.number for record in to_replay(Version(0, 0, 0, None), records)] == [0, 2]
    assert [record.number for record in to_replay(Version(1, 1, 1, None), records)] == [2]
    assert records[2].fills == ("view",)
    assert [record.state for record in done(root).steps.tail if record.fills] == ["done"]


def test_replay_from_a_step_that_is_not_kept_is_refused() -> None:
    with pytest.raises(Forgotten, match="steps 0 to 2"):
        to_replay(Version(0, 0, 0, None), [StepRecord(3, 0, 0, 0)])


def test_steps_beyond_the_retention_are_forgotten_unless_a_version_needs_them() -> None:
    root = replace(FRESH, retained_steps=3)
    for _ in range(10):
        root = done(assigned(root, []))
    assert root.first == 0

    root = done(assigned(replace(root, versions=(Version(1, 9, 0, None),)), []))

    assert (root.first, root.last) == (8, 11)


def test_nodes_count_as_unfillable_after_the_step_that_was_to_fill_them_was_aborted() -> None:
    root = assign(FRESH, [], LIMITS, clock=5, fills=("view",))

    assert not unfillable(root, ("view",))
    assert unfillable(aborted(root), ("view",))
    assert not unfillable(aborted(root), ("view", "another"))
    assert not unfillable(done(root), ("view",))
