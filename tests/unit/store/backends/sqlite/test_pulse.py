"""Marks between processes that share a file."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemill.store.backends.sqlite.pulse import Pulse, cell_of


@contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process can be written to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_mark_that_the_disk_does_not_take_is_no_error_and_the_next_one_is_seen(tmp_path: Path) -> None:
    one, other = Pulse(tmp_path / "pulse"), Pulse(tmp_path / "pulse")
    with full_disk():
        one.mark("leases")
    assert other.moved([cell_of("leases")]) == set()
    one.mark("leases")
    assert other.moved([cell_of("leases"), cell_of("locks")]) == {cell_of("leases")}
    one.close()
    other.close()
