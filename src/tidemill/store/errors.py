"""What can go wrong with a store, grouped by what a caller can do about it.

StoreError
├─ Conflict          the write lost: another writer was first. Read again, decide again
│  └─ Fenced         the lease behind the write is not ours any more. Stop acting
├─ OutcomeUnknown    the write may or may not have happened, and reading back could not tell
├─ NoStore           nobody has made a store at that address
├─ Unavailable       the store cannot be reached or did not answer in time
│  ├─ Locked         others kept the store busy for as long as we waited. Try again
│  └─ ReadOnly       the store answers, but takes no writes: full disk, read-only file, standby
├─ BadRequest        the caller's key, document, condition or address cannot be stored or understood
└─ ReleaseTooOld     a newer release has closed this store to releases like this one
"""

from tidemill.base.errors import TidemillError


class StoreError(TidemillError):
    """The store could not do what was asked."""

    code = "store"


class Conflict(StoreError):
    """Another writer was first. Nothing was written."""

    code = "store.conflict"


class Fenced(Conflict):
    """The write was made under a lease that has passed on. Nothing was written; stop acting."""

    code = "store.fenced"


class OutcomeUnknown(StoreError):
    """The write was sent, its answer was lost, and what lies in the store does not tell its fate."""

    code = "store.unknown"


class NoStore(StoreError):
    """There is no store at that address, and it was not to be made. Nothing was written."""

    code = "store.not_found"


class Unavailable(StoreError):
    """The store cannot be reached. `maybe_applied` says that a write may have happened all the same."""

    code = "store.unavailable"

    def __init__(self, message: str, *, maybe_applied: bool = False) -> None:
        super().__init__(message)
        self.maybe_applied = maybe_applied


class Locked(Unavailable):
    """Others were at the store for as long as we waited. Nothing was written."""

    code = "store.unavailable.locked"


class ReadOnly(Unavailable):
    """The store takes no writes now. Nothing was written."""

    code = "store.read_only"


class BadRequest(StoreError):
    """The request can never succeed as it stands."""

    code = "store.bad_request"


class ReleaseTooOld(StoreError):
    """The store may only be written by newer releases. Upgrade this node."""

    code = "store.release_too_old"
