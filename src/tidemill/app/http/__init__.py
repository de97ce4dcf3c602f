"""The HTTP face of a node.

The promise: a request reaches a route only through the door (known host, known origin, known caller);
every error is a problem document (RFC 9457); every change is in the audit log before it is answered.

Read in this order:
- `context`    what the routes may ask of the node
- `problem`    errors as problem documents
- `door`       Host, Origin and tokens, for HTTP and WebSocket alike; `require(Role)` for routes
- `headers`    what every answer tells browsers to refuse
- `recorder`   the audit log of changes
- `body`, `etag`, `leaving`   what routes have in common: JSON in, revisions, streams that end with the node
- `form`, `contents`   large contents in and out, piece by piece
- `feed`       what changes, for the stream of events
- `routes/`    one file per noun
- `extensions` routes that packages add, and the files of `web_root`
- `pieces`, `worker_socket`   messages of any size in bounded memory, and the WebSocket of workers
- `shortcut`, `prefix`        the short way for jobs that are submitted; paths of a proxy
- `build`      puts them together
- `server`     how uvicorn serves the result

It decides nothing about leases, nodes or tasks.
"""

from tidemill.app.http.build import build_app
from tidemill.app.http.context import ClusterView, NodeContext, NodeView
from tidemill.app.http.door import check_bind, require
from tidemill.app.http.extensions import load_extensions
from tidemill.app.http.server import server_config

__all__ = [
    "build_app",
    "load_extensions",
    "NodeContext",
    "ClusterView",
    "NodeView",
    "require",
    "check_bind",
    "server_config",
]
