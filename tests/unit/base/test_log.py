"""Trouble that comes again and again."""

import pytest

from tidemill.base.log import SELDOM_S, Sparing, get_logger


def test_trouble_is_told_when_it_begins_and_then_seldom(caplog: pytest.LogCaptureFixture) -> None:
    now = 1000.0
    trouble = Sparing(get_logger("test.sparing"), lambda: now)
    for _ in range(4 * int(SELDOM_S)):
        trouble.warn("store.away", at=now)
        now += 0.5
    told = [record.__dict__["fields"]["at"] for record in caplog.records]
    trouble.over()
    trouble.warn("store.away", at=now)

    assert told == [1000.0, 1000.0 + SELDOM_S]
    assert caplog.records[-1].__dict__["fields"]["at"] == now
