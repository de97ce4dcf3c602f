"""Which releases may write to a store.

Documents evolve by addition, so releases mix freely, until one writes what older ones would damage.
That release closes the store to older ones; the mark is kept in the store and never goes back.
"""

import re

from tidemill.store.errors import BadRequest, ReleaseTooOld

FIRST_RELEASE = "0.1.0"

_RELEASE = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def parse_release(release: str) -> tuple[int, int, int]:
    """The three numbers of a release; what follows them (`.dev1`, `rc2`) does not count."""
    match = _RELEASE.match(release)
    if match is None:
        raise BadRequest(f"{release!r} is not a release such as {FIRST_RELEASE}")
    return int(match[1]), int(match[2]), int(match[3])


def newer(one: str, other: str) -> str:
    return max(one, other, key=parse_release)


def refuse_if_older(release: str, oldest_writer: str) -> None:
    if parse_release(release) < parse_release(oldest_writer):
        raise ReleaseTooOld(
            f"this store is open to release {oldest_writer} and newer, this is {release}: upgrade this node"
        )
