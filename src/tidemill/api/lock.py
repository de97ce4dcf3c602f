"""`tidemill.Lock`: mutual exclusion among processes that share nothing but a store."""

from tidemill.api.leased import Leased
from tidemill.cluster import Holding, Timing
from tidemill.store import Store


class Lock(Leased):
    """A lock in the store at `url`, held by at most one of all who name it.

        with tidemill.Lock("sqlite:///jobs.db", "nightly-report") as lock:
            publish(report, fence=lock.fence)

    It is a lease of `ttl_s` seconds: while it is held, a thread of this process renews it, and when
    the process dies another can have it within `ttl_s`. When renewal fails, because the store is away or
    this process was stopped too long, the lock is lost: `held` turns False and `fence` raises
    `LeaseLost`, before another can have it. A thread cannot stop your code in the middle, so what must
    never be done twice has to carry `fence`, a number that grows from holder to holder (not by one), and
    whatever receives it has to refuse a smaller one than it has seen. Leaving the `with` block of a lock
    that was lost raises nothing.

    Two locks of one name exclude each other within a process too. A lock can be taken again after it
    was let go of; it is not re-entrant, and not to be used from several threads at once. It is let go
    of when the object is dropped and when the process exits. A child that is forked while it is held
    does not hold it, nor does a copy or what comes out of a pickle: each is one more who wants it, in
    whichever process it lands. Each held lock costs a thread and a connection.
    """

    what = "lock"

    def __init__(self, url: str, name: str, *, ttl_s: float = 5.0) -> None:
        super().__init__(url, name, ttl_s)

    def _taking(self, store: Store, timing: Timing) -> Holding:
        return Holding(store, self.name, timing=timing)
