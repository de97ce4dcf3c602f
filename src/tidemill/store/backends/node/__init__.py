"""Locks and semaphores through a node, for programs that cannot reach its database.

The node passes the verbs that leases need on to its store, for the collections of locks and semaphores
alone. So this is no store for everything: what a node does not offer is refused.

- `wire`     what both say
- `backend`  the program's side; the node's is `tidemill.app.http.routes.leases`
"""

from tidemill.store.backends.node.backend import NodeBackend

__all__ = ["NodeBackend"]
