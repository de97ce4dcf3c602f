"""Exit codes, a contract with scripts. Told by the code of an error, so that a start loads little."""

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    REFUSED = 5
    UNREACHABLE = 6
    UNHEALTHY = 7
    INTERRUPTED = 130


# The first prefix that fits tells.
_BY_CODE = (
    ("setting.", Exit.USAGE),
    ("door.bind", Exit.USAGE),
    ("store.bad_request", Exit.USAGE),
    ("task.bad_request", Exit.USAGE),
    ("worker.bad_", Exit.USAGE),
    ("not_found", Exit.NOT_FOUND),
    ("task.not_found", Exit.NOT_FOUND),
    ("queue.not_found", Exit.NOT_FOUND),
    ("schedule.not_found", Exit.NOT_FOUND),
    ("batch.not_found", Exit.NOT_FOUND),
    ("task.", Exit.CONFLICT),
    ("queue.", Exit.CONFLICT),
    ("schedule.", Exit.CONFLICT),
    ("store.conflict", Exit.CONFLICT),
    ("store.fenced", Exit.CONFLICT),
    ("cluster.name_taken", Exit.CONFLICT),
    ("door.", Exit.REFUSED),
    ("worker.refused", Exit.REFUSED),
    ("store.unavailable", Exit.UNREACHABLE),
    ("store.read_only", Exit.UNREACHABLE),
)


def exit_code(code: str) -> Exit:
    """The exit code of an error with that code."""
    return next((exit_ for prefix, exit_ in _BY_CODE if code.startswith(prefix)), Exit.FAILED)
