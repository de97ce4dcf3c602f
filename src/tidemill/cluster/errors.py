"""What can go wrong among nodes.

ClusterError
├─ LeaseLost    the lease ran out or passed on. Stop acting; take it again if you still want it
│  └─ NotLeader this node does not lead now
├─ NameTaken    another live node has this name
└─ SourceFailed the caller's own code, asked for tasks, raised. It is asked again
"""

from tidemill.base.errors import TidemillError


class ClusterError(TidemillError):
    """Nodes could not agree on what was asked."""

    code = "cluster"


class LeaseLost(ClusterError):
    """The lease cannot be trusted any more. Whatever it guarded may have a new holder."""

    code = "cluster.lease_lost"


class NotLeader(LeaseLost):
    """This node does not lead, or cannot be sure that it does."""

    code = "cluster.not_leader"


class NameTaken(ClusterError):
    """A node of this name is alive. Choose another name."""

    code = "cluster.name_taken"


class SourceFailed(ClusterError):
    """What was asked for the tasks of partitions raised. It will be asked again."""

    code = "cluster.source_failed"
