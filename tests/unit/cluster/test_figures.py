import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tidemill.cluster.figures import (
    RULES,
    WINDOW_S,
    Counts,
    Figures,
    Window,
    alarms,
    leaderless,
    silence,
    stuck,
)

WELL = Figures(
    at=1_000_000,
    ttl_s=5.0,
    age_s=1.2,
    skew_s=0.004,
    skew_error_s=0.001,
    window_s=60.0,
    total=Counts(renewals=4800, missed=9, late=3, answers_s=20.0, conflicts=70, unknown=2),
    recent=Counts(renewals=48, answers_s=0.2, calls=60, conflicts=5, settled=1),
)


def lately(**counts: float) -> Figures:
    return replace(WELL, recent=replace(WELL.recent, **counts))


def test_a_node_that_is_well_raises_no_alarm_whatever_it_counted_long_ago() -> None:
    assert alarms(WELL) == []


@pytest.mark.parametrize(
    ("figures", "code", "message"),
    [
        (replace(WELL, age_s=3.14), "lease.old", "its lease of 5 s was last renewed 3.1 s ago"),
        (
            lately(late=2),
            "lease.late",
            "2 renewals began late, as the process did not get to run, in the last 60 s",
        ),
        (
            lately(missed=3),
            "lease.missed",
            "3 renewals were not answered by the store in time, in the last 60 s",
        ),
        (
            lately(answers_s=19.2),
            "store.slow",
            "the store is slow: it takes 0.40 s to answer a renewal",
        ),
        (lately(unknown=1), "store.unknown", "1 writes have a fate that could not be told, in the last 60 s"),
        (replace(WELL, skew_s=3.21), "clock.skew", "its clock is 3.2 s behind the store's"),
        (replace(WELL, skew_s=-3600.0), "clock.skew", "its clock is 3600.0 s ahead of the store's"),
    ],
)
def test_each_alarm_says_in_plain_words_what_is_wrong(figures: Figures, code: str, message: str) -> None:
    [alarm] = alarms(figures)

    assert (alarm.code, alarm.message) == (code, message)
    assert alarm.fix


@pytest.mark.parametrize(
    "figures",
    [
        replace(WELL, age_s=2.5),
        lately(answers_s=12.0),
        lately(renewals=0, answers_s=0.0),
        lately(conflicts=10_000),
        replace(WELL, skew_s=1.0),
        replace(WELL, skew_s=2.5, skew_error_s=1.6),
    ],
)
def test_what_is_within_bounds_raises_none(figures: Figures) -> None:
    assert alarms(figures) == []


def test_a_node_can_have_several_alarms_each_of_its_own_code() -> None:
    ill = replace(lately(late=1, missed=1, unknown=1, answers_s=48.0), age_s=4.0, skew_s=2.0)

    assert [alarm.code for alarm in alarms(ill)] == [code for code, _, _ in RULES]
    assert len({code for code, _, _ in RULES}) == len(RULES)


def test_what_others_see_of_a_node_is_told_as_well() -> None:
    assert silence(12.4).message == "it has not been heard of for 12 s"
    assert stuck(150.0).message == "it renews its lease, but has not reported for 150 s"
    assert leaderless().code == "cluster.leaderless"


counts = st.builds(
    Counts, renewals=st.integers(0, 1000), late=st.integers(0, 10), conflicts=st.integers(0, 9)
)


@given(st.lists(counts, min_size=1, max_size=40), st.floats(0.5, 30))
def test_a_window_tells_just_what_was_counted_in_the_last_minute(steps: list[Counts], every_s: float) -> None:
    window, total, history = Window(), Counts(), []
    for at, step in enumerate(steps):
        total = total - (Counts() - step)
        history.append((at * every_s, total))
        window.add(*history[-1])
    now = history[-1][0]
    began, before = next(sample for sample in history if now - sample[0] <= WINDOW_S)

    assert window.since(now, total) == (now - began, total - before)


def test_an_empty_window_has_counted_nothing() -> None:
    assert Window().since(7.0, Counts(renewals=5)) == (0.0, Counts())
