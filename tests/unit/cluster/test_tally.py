from tidemill.cluster.partitions import DONE, FAILED, IN_PROGRESS, OUTSTANDING, STOPPING, Partition
from tidemill.cluster.tally import failures, held_in_all, tallies

NOW = 1_000_000


def partition(key: str, state: str = OUTSTANDING, holder: str | None = None, expire: int = 0) -> Partition:
    return Partition(key, key.split("/", maxsplit=1)[0], state, 0, 0, 0, holder, 1, expire, 1)


MIXED = [
    partition("files/0"),
    partition("files/1", holder="t1", expire=NOW),
    partition("files/2", holder="t1", expire=NOW + 1),
    partition("files/3", holder="t2", expire=NOW + 1),
    partition("files/4", STOPPING, "t2", NOW + 1),
    partition("files/5", DONE, "t1"),
    partition("files/6", FAILED, "t1"),
    partition("files/7", FAILED, "t1"),
    partition("feed/0", holder="t1", expire=NOW + 1),
]


def test_partitions_are_counted_by_handler_and_state_and_holder() -> None:
    feed, files = tallies(MIXED, NOW)

    assert (feed.handler, feed.states[IN_PROGRESS], feed.held) == ("feed", 1, {"t1": 1})
    assert files.states == {OUTSTANDING: 2, IN_PROGRESS: 2, STOPPING: 1, DONE: 1, FAILED: 2}
    assert files.held == {"t1": 1, "t2": 2}
    assert [held_in_all((feed, files), token) for token in ("t1", "t2", "t3")] == [2, 2, 0]


def test_what_has_failed_is_alarming_and_says_what_to_do() -> None:
    [alarm] = failures(tallies(MIXED, NOW))

    assert alarm.code == "partition.failed"
    assert alarm.message == (
        "2 partitions have failed, as the handler 'files' raised too often; files/6 is one"
    )
    assert "tidemill cluster partitions --handler files" in alarm.fix
    assert "tidemill cluster retry KEY" in alarm.fix


def test_nothing_failed_is_not_alarming() -> None:
    assert failures(tallies(MIXED[:6], NOW)) == []
    assert tallies([], NOW) == []
