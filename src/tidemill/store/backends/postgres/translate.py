"""Driver errors, said in the store's words. The only place that knows them."""

import psycopg

from tidemill.store.errors import BadRequest, ReadOnly, StoreError, Unavailable

_COLLISIONS = {"40001", "40P01"}
_READ_ONLY = {"25006", "53100"}
_TOO_SLOW = {"57014", "55P03"}
_HINTS = {
    "42501": "grant the role CREATE on the schema, and all rights on the tables named tidemill_*",
    "42P01": "tables were dropped while the store was open; open it again",
    "3F000": "create the schema, or name another one in search_path",
}


def collided(error: psycopg.Error) -> bool:
    """Whether the transaction lost against another one, so that it can simply be done again."""
    return error.sqlstate in _COLLISIONS


def fatal(error: psycopg.Error) -> bool:
    """Whether these were the server's last words on this connection."""
    return error.diag.severity_nonlocalized in {"FATAL", "PANIC"}


def connect_error(error: psycopg.Error, server: str) -> StoreError:
    """Nothing was sent, because there was no connection."""
    if "hot standby" in str(error):
        return ReadOnly(f"{server} takes no writes: {_line(error)}")
    return Unavailable(f"{server} cannot be reached: {_line(error)}")


def statement_error(error: psycopg.Error, server: str, *, lost: bool, writes: bool) -> StoreError:
    """What became of a statement.

    An answer that says ERROR means that nothing was done. When the connection was lost instead, even
    if the last word was that the server is shutting down, a commit may have come before it.
    """
    if lost:
        return Unavailable(f"{server} was lost: {_line(error)}", maybe_applied=writes)
    state = error.sqlstate or ""
    if state in _READ_ONLY:
        return ReadOnly(f"{server} takes no writes: {_line(error)}")
    if state in _TOO_SLOW:
        return Unavailable(f"{server} is too slow or blocked: {_line(error)}")
    if state in _HINTS:
        return BadRequest(f"{server}: {_line(error)}; {_HINTS[state]}")
    if isinstance(error, psycopg.DataError | psycopg.ProgrammingError) or state.startswith("54"):
        return BadRequest(f"{server}: {_line(error)}")
    return Unavailable(f"{server}: {_line(error)}")


def _line(error: psycopg.Error) -> str:
    return " ".join((error.diag.message_primary or str(error) or type(error).__name__).split())
