"""Driver errors, said in the store's words."""

import psycopg
import pytest

from tidemill.store import BadRequest, ReadOnly, StoreError, Unavailable
from tidemill.store.backends.postgres.translate import collided, connect_error, statement_error


def error_of(state: str) -> psycopg.Error:
    return psycopg.errors.lookup(state)("what the\n server said")


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("25006", ReadOnly),
        ("53100", ReadOnly),
        ("53200", Unavailable),
        ("55P03", Unavailable),
        ("57014", Unavailable),
        ("XX001", Unavailable),
        ("22P05", BadRequest),
        ("42501", BadRequest),
        ("42P01", BadRequest),
        ("54000", BadRequest),
    ],
)
def test_an_answered_error_means_that_nothing_was_done(state: str, kind: type[StoreError]) -> None:
    said = statement_error(error_of(state), "PostgreSQL at host:1", lost=False, writes=True)

    assert type(said) is kind
    assert "PostgreSQL at host:1" in str(said)
    assert "what the server said" in str(said)
    assert not getattr(said, "maybe_applied", False)


@pytest.mark.parametrize("writes", [True, False])
def test_a_lost_connection_leaves_a_write_open(writes: bool) -> None:
    said = statement_error(error_of("57P01"), "PostgreSQL at host:1", lost=True, writes=writes)

    assert type(said) is Unavailable
    assert said.maybe_applied is writes


def test_without_a_connection_nothing_was_sent() -> None:
    said = connect_error(psycopg.OperationalError("connection refused"), "PostgreSQL at host:1")

    assert type(said) is Unavailable
    assert not said.maybe_applied


def test_only_collisions_are_done_again() -> None:
    assert collided(error_of("40001"))
    assert collided(error_of("40P01"))
    assert not collided(error_of("55P03"))
