"""How long a holder may trust a lease. Pure.

The store grants a lease for `ttl` from the moment it handles the request, which is never before the
request was sent. So a holder that counts from the sending on its own clock, and stops a margin early,
stops before the store's clock says so, even if its own clock runs a fifth slow:

    sent                  handled                          trusted_until      expire
     |-----------------------|------------------------------------|-------------|
     |<------------------ ttl - margin --------------------------->|
                             |<--------------------- ttl ----------------------->|
"""

from msgspec import Struct

from tidemill.store import Lease

MARGIN = 0.2
"""The share of a lease that its holder does not use."""

BEATS = 4
"""How many renewals fit into a lease."""


class Timing(Struct, frozen=True):
    """The times that follow from the length of a lease."""

    ttl_s: float = 5.0

    @property
    def ttl_ms(self) -> int:
        return round(self.ttl_s * 1000)

    @property
    def trust_s(self) -> float:
        """How long a holder trusts a lease, from the sending of the request that got it."""
        return self.ttl_s * (1 - MARGIN)

    @property
    def beat_s(self) -> float:
        """The time from one renewal to the next."""
        return self.ttl_s / BEATS

    @property
    def retry_s(self) -> float:
        """The time from a renewal that failed to the next attempt."""
        return self.ttl_s / 20

    @property
    def spread_s(self) -> float:
        """Over how long a time those who wait for an expiry spread their attempts."""
        return self.ttl_s / 20


class Grant(Struct, frozen=True):
    """A lease as its holder sees it."""

    key: str
    term: int
    trusted_until: float

    def trusted(self, now: float) -> bool:
        """Whether the holder may act. False is for good: this grant will not be trusted again."""
        return now < self.trusted_until


def granted(lease: Lease | None, holder: str, sent: float, timing: Timing) -> Grant | None:
    """What the answer to a request of `holder`, sent at `sent` on its own clock, grants."""
    if lease is None or not lease.held_by(holder):
        return None
    return Grant(lease.key, lease.term, sent + timing.trust_s)
