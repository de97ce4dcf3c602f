from pathlib import Path

import apsw
import pytest

from tidemill.store import open_store
from tidemill.store.backends.sqlite import hosttime, layout
from tidemill.store.backends.sqlite.hosttime import anchor_time, known_time


@pytest.fixture
def connection(tmp_path: Path) -> apsw.Connection:
    made = apsw.Connection(str(tmp_path / "store.db"))
    made.execute(layout.FOUNDATION)
    return made


def test_a_step_of_the_wall_clock_moves_nobodys_time(
    connection: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = anchor_time(connection)
    monkeypatch.setattr(hosttime, "wall_ms", lambda: 0)
    later = known_time(connection)

    assert later is not None
    assert 0 <= later.now() - before.now() < 60_000


def test_after_a_reboot_time_does_not_fall_behind_the_last_anchor(
    connection: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = anchor_time(connection).now()
    monkeypatch.setattr(hosttime, "boot_id", lambda: "another-boot")
    monkeypatch.setattr(hosttime, "wall_ms", lambda: 1_000)

    assert known_time(connection) is None
    assert before - 60_000 < anchor_time(connection).now()


def test_without_a_boot_id_the_wall_clock_serves(
    connection: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosttime, "boot_id", lambda: None)
    monkeypatch.setattr(hosttime, "wall_ms", lambda: 123_456)
    clock = known_time(connection)

    assert clock is not None
    assert clock.now() == 123_456


async def test_two_processes_worth_of_stores_agree_on_the_time(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    async with open_store(url) as one, open_store(url) as two:
        first, second, third = await one.now(), await two.now(), await one.now()

        assert first <= second <= third
