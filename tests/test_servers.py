"""The servers that other tests rely on are durable, survive being killed, and leave nothing behind."""

from pathlib import Path

import psutil
import psycopg
from psycopg import sql

from servers import Postgres, PostgresServer


def setting(url: str, name: str) -> str:
    with psycopg.connect(url) as connection:
        row = connection.execute(sql.SQL("SHOW {}").format(sql.Identifier(name))).fetchone()
        assert row is not None
        return str(row[0])


def test_the_shared_server_is_durable(postgres_server: Postgres) -> None:
    assert [setting(postgres_server.url, name) for name in ("fsync", "synchronous_commit")] == ["on", "on"]


def test_each_database_is_empty_and_its_own(postgres_server: Postgres, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE only_here (x int)")
    other = postgres_server.create_database("odd name/ü")
    try:
        with psycopg.connect(other) as connection:
            assert connection.execute("SELECT to_regclass('only_here')").fetchone() == (None,)
    finally:
        postgres_server.drop_database("odd name/ü")


def test_committed_rows_survive_a_kill(doomed_postgres: PostgresServer) -> None:
    with psycopg.connect(doomed_postgres.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS x")
    with psycopg.connect(doomed_postgres.url):
        doomed_postgres.kill()
        doomed_postgres.kill()
        doomed_postgres.start()
    doomed_postgres.restart()
    with psycopg.connect(doomed_postgres.url) as connection:
        assert connection.execute("SELECT x FROM kept").fetchone() == (1,)


def test_nothing_is_left_behind(doomed_postgres: PostgresServer) -> None:
    with psycopg.connect(doomed_postgres.url, autocommit=True) as connection:
        row = connection.execute("SHOW data_directory").fetchone()
        assert row is not None
        data, backend = Path(row[0]), psutil.Process(connection.info.backend_pid)
        assert data.exists()
        doomed_postgres.remove()
        assert not data.parent.exists()
        assert not backend.is_running() or backend.status() == psutil.STATUS_ZOMBIE
