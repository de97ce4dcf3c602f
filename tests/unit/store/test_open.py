"""What may stand in the address of a store."""

from pathlib import Path

import apsw
import pytest

from tidemill.store import BadRequest, NoStore, open_store


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("mysql://ada:hunter2@db/mill", "'***@db/mill'"),
        ("mysql://db/mill?password=hunter2", "'mysql://db/mill'"),
        ("jobs.db", "'jobs.db'"),
    ],
)
def test_what_is_no_address_is_refused_without_telling_its_password(url: str, shown: str) -> None:
    with pytest.raises(BadRequest) as refused:
        open_store(url)
    assert shown in str(refused.value)
    assert "hunter2" not in str(refused.value)


async def test_a_file_that_is_not_there_is_not_made_by_those_who_do_not_want_it(tmp_path: Path) -> None:
    path = tmp_path / "mistyped" / "store.db"
    with pytest.raises(NoStore, match=f"no store at {path}"):
        await open_store(f"sqlite:///{path}", create=False).open()

    assert names(tmp_path) == []


@pytest.mark.parametrize("statement", ["PRAGMA user_version = 0", "CREATE TABLE cats (name)"])
async def test_a_file_of_somebody_else_stays_as_it_is(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "cats.db"
    path.touch()
    apsw.Connection(str(path)).execute(statement)
    before = path.read_bytes()
    with pytest.raises(NoStore, match=f"{path}: the file is there"):
        await open_store(f"sqlite:///{path}", create=False).open()

    assert path.read_bytes() == before
    assert names(tmp_path) == ["cats.db"]


async def test_a_database_without_a_store_stays_as_it_is(postgres_url: str) -> None:
    for _ in range(2):
        with pytest.raises(NoStore, match="no store in it"):
            await open_store(postgres_url, create=False).open()


async def test_a_store_that_is_there_is_opened_by_everybody(tmp_path: Path, postgres_url: str) -> None:
    for url in (f"sqlite:///{tmp_path}/store.db", postgres_url):
        async with open_store(url):
            pass
        async with open_store(url, create=False) as store:
            assert await store.now() > 0
