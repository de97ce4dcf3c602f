"""Symmetric nodes that agree on one thing: who holds which lease.

The promise: at any moment at most one node acts as leader; what it writes carries its term, and is
refused once that term has passed; when it dies another takes over within a lease and a second. It
needs nothing but a `Store`.

Words: a *lease* is a document in the store with a holder, an expiry and a term that only grows; a *grant*
is a lease as its holder sees it, trusted until a moment on the holder's own clock; a *beat* is the one
call by which a node renews its leases and learns who leads; the *leader* is the node whose token holds
the leader lease; a *semaphore* has numbered *slots*, each a lease, and a *line* of those who
wait, each with a *ticket*, which is a lease too.

Read in this order:
- `lease`      pure: how long a holder may trust a lease
- `standing`   pure: what a node believes after each beat, and what changed
- `heart`      the beat, and `heart_thread`, which gives it a thread and a connection of its own
- `nodes`      the node list: join, list, and the leader's removal of the dead
- `duty`       what runs only while this node leads
- `lock`       a lease for anybody's use
- `turns`      pure: whose turn it is at a semaphore
- `semaphore`  one of several slots for anybody's use, in order of arrival
- `errors`     what can go wrong

It knows nothing of tasks, pipelines, HTTP or settings files.
"""

from tidemill.cluster.duty import Duty
from tidemill.cluster.errors import ClusterError, LeaseLost, NameTaken, NotLeader
from tidemill.cluster.heart import Heart
from tidemill.cluster.heart_thread import HeartThread
from tidemill.cluster.lease import Grant, Timing
from tidemill.cluster.lock import Holding
from tidemill.cluster.nodes import LEADER, LEASES, Node, join, leader, list_nodes
from tidemill.cluster.semaphore import SEMAPHORES, Seat
from tidemill.cluster.standing import Gained, Lost, Moved, Standing

__all__ = [
    "Heart",
    "HeartThread",
    "Duty",
    "Standing",
    "Gained",
    "Lost",
    "Moved",
    "Grant",
    "Timing",
    "Node",
    "join",
    "leader",
    "list_nodes",
    "LEASES",
    "LEADER",
    "Holding",
    "Seat",
    "SEMAPHORES",
    "ClusterError",
    "LeaseLost",
    "NotLeader",
    "NameTaken",
]
