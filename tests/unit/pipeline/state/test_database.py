"""The database of versions, as the design describes it."""

from collections.abc import Mapping

import pytest

from tidemill.pipeline.errors import Forgotten, NotOpen
from tidemill.pipeline.state.database import Database
from tidemill.pipeline.state.files import RunWriter
from tidemill.pipeline.state.spec import RunRef
from tidemill.store.blobs import BlobRef, Blobs
from unit.pipeline.state.test_run import numbers, written


class Versions:
    """A version list in memory."""

    def __init__(self) -> None:
        self.manifests: dict[int, BlobRef | None] = {0: None}
        self.steps: list[int] = []

    def kept(self) -> Mapping[int, BlobRef | None]:
        return dict(self.manifests)

    def keep_only(self, version: int) -> None:
        self.manifests = {version: self.manifests[version]}

    def publish(self, version: int, step: int, manifest: BlobRef) -> None:
        self.steps.append(step)
        self.manifests = dict([*self.manifests.items(), (version, manifest)][-2:])


@pytest.fixture
def versions() -> Versions:
    return Versions()


@pytest.fixture
def database(blobs: Blobs, versions: Versions) -> Database:
    return Database(blobs, versions, "p", 1, "p")


def put_everywhere(database: Database, *runs: RunRef) -> None:
    for shard in range(64):
        database.put("s", shard, [run for run in runs if shard in run.shards])


def test_a_new_database_has_one_empty_version(database: Database) -> None:
    assert database.versions() == range(1)
    database.open(0)
    assert database.get_step() == 0
    assert database.get("s", 0) == ()


def test_a_commit_adds_a_version_and_closes(
    database: Database, writer: RunWriter, versions: Versions
) -> None:
    run = written(writer, numbers(500, 500))
    database.open(0)
    put_everywhere(database, run)
    database.set_step(7)
    database.commit()

    assert database.versions() == range(2)
    assert versions.steps == [7]
    with pytest.raises(NotOpen):
        database.get("s", 0)
    database.open(1)
    assert (database.get_step(), database.get("s", 63)) == (7, (run,))


def test_opening_a_version_discards_the_other(database: Database, writer: RunWriter) -> None:
    for seed in range(2):
        database.open(seed)
        put_everywhere(database, *database.get("s", 0), written(writer, numbers(500, 500, seed)))
        database.commit()
    assert database.versions() == range(1, 3)
    database.open(1)

    assert len(database.get("s", 5)) == 1
    assert database.versions() == range(1, 2)
    with pytest.raises(Forgotten, match=r"version 2 is not kept; kept are \[1\]"):
        database.open(2)


def test_without_a_commit_the_opened_version_stays(
    blobs: Blobs, versions: Versions, writer: RunWriter
) -> None:
    first = Database(blobs, versions, "p", 1, "p")
    first.open(0)
    put_everywhere(first, written(writer, numbers(500, 500)))
    first.set_step(9)
    second = Database(blobs, versions, "p", 2, "p")
    second.open(0)

    assert (second.versions(), second.get_step(), second.get("s", 0)) == (range(1), 0, ())


def test_a_run_leaves_all_its_shards_or_none(
    database: Database, writer: RunWriter, versions: Versions
) -> None:
    database.open(0)
    put_everywhere(database, written(writer, numbers(500, 500)))
    database.put("s", 3, [])

    with pytest.raises(ValueError, match="spans shards"):
        database.commit()
    assert list(versions.kept()) == [0]
    put_everywhere(database)
    database.commit()
    database.open(1)
    assert database.get("s", 3) == ()
