"""Symmetric nodes that agree on one thing: who holds which lease.

The promise: at any moment at most one node acts as leader; what it writes carries its term, and is
refused once that term has passed; when it dies another takes over within a lease and a second. It
needs nothing but a `Store`.

Words: a *lease* is a document in the store with a holder, an expiry and a term that only grows; a *grant*
is a lease as its holder sees it, trusted until a moment on the holder's own clock; a *beat* is the one
call by which a node renews its leases and learns who leads; the *leader* is the node whose token holds
the leader lease; a *semaphore* has numbered *slots*, each a lease, and a *line* of those who
wait, each with a *ticket*, which is a lease too; a *partition* is a leased document that carries an
opaque *task* for a *handler*, which the leader creates and the *followers* share among themselves.

Read in this order:
- `lease`      pure: how long a holder may trust a lease
- `standing`   pure: what a node believes after each beat, and what changed
- `heart`      the beat, and `heart_thread`, which gives it a thread and a connection of its own
- `nodes`      the node list: join, list, and the leader's removal of the dead
- `duty`       what runs only while this node leads
- `figures`    pure: what a node counts about itself, and what is alarming about it
- `reports`    how figures reach others
- `listing`    a node's place in the list: its entry and, while it leads, no entries of the dead
- `lock`       a lease for anybody's use
- `turns`      pure: whose turn it is at a semaphore
- `semaphore`  one of several slots for anybody's use, in order of arrival
- `partitions` the partition: its document, its states, and how to list them
- `spread`     pure: who should try which partition
- `tally`      pure: partitions counted, and what is alarming about them
- `work`       a partition as its handler has it
- `keeper`     the renewal of all that a node works on, in one call
- `follower`   every node's side: take, run, keep, let go
- `partitioner` the leader's side: create, remove, begin anew when nodes change
- `member`     a process that takes part: all of the above, put together
- `errors`     what can go wrong

It knows nothing of tasks, pipelines, HTTP or settings files.
"""

from tidemill.cluster.duty import Duty
from tidemill.cluster.errors import ClusterError, LeaseLost, NameTaken, NotLeader, SourceFailed
from tidemill.cluster.follower import Follower
from tidemill.cluster.heart import Heart
from tidemill.cluster.heart_thread import HeartThread
from tidemill.cluster.lease import Grant, Timing
from tidemill.cluster.lock import Holding
from tidemill.cluster.member import Member, taking_part
from tidemill.cluster.nodes import LEADER, LEASES, Node, join, leader, list_nodes
from tidemill.cluster.partitioner import Source, Supervised, Windowed
from tidemill.cluster.partitions import (
    PARTITIONS,
    Partition,
    create_partitions,
    list_partitions,
    retry_partition,
)
from tidemill.cluster.semaphore import SEMAPHORES, Seat
from tidemill.cluster.standing import Gained, Lost, Moved, Standing
from tidemill.cluster.work import Handler, Work

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
    "taking_part",
    "Member",
    "Follower",
    "Handler",
    "Work",
    "Windowed",
    "Source",
    "Supervised",
    "Partition",
    "PARTITIONS",
    "create_partitions",
    "list_partitions",
    "retry_partition",
    "ClusterError",
    "LeaseLost",
    "NotLeader",
    "NameTaken",
    "SourceFailed",
]
