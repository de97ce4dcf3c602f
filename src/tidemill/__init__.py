"""Tidemill keeps answers fresh and work done, coordinated by nothing but a database.

- `tidemill.Pipeline`  tables that change and views that follow, on a Spark session
- `tidemill.Executor`  functions as durable tasks, with futures; `tidemill.connect` also knows the nodes
- `tidemill.current`   inside of such a function, the task: its id, fence, reporter and shared context
- `tidemill.SharedContext` short-lived state that all processes of a piece of work share
- `tidemill.Lock`      a lock among processes that share nothing but a store; it hands out a fence
- `tidemill.Semaphore` at most so many at a time among such processes, in order of arrival
- `tidemill.LeaseLost` what both raise when they cannot be trusted any more

Each is loaded when it is first used: importing this package loads neither Spark nor a driver.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidemill.base.version import __version__

if TYPE_CHECKING:
    from tidemill.api.client import Client, connect
    from tidemill.api.current import current
    from tidemill.api.executor import Executor
    from tidemill.api.lock import Lock
    from tidemill.api.pipeline import Pipeline
    from tidemill.api.semaphore import Semaphore
    from tidemill.api.shared import SharedContext
    from tidemill.cluster.errors import LeaseLost
    from tidemill.tasks.call import TaskFailed

__all__ = [
    "Pipeline",
    "Executor",
    "connect",
    "Client",
    "current",
    "SharedContext",
    "TaskFailed",
    "Lock",
    "Semaphore",
    "LeaseLost",
    "__version__",
]

_HOMES = {
    "Pipeline": "tidemill.api.pipeline",
    "Executor": "tidemill.api.executor",
    "connect": "tidemill.api.client",
    "Client": "tidemill.api.client",
    "current": "tidemill.api.current",
    "SharedContext": "tidemill.api.shared",
    "TaskFailed": "tidemill.tasks.call",
    "Lock": "tidemill.api.lock",
    "Semaphore": "tidemill.api.semaphore",
    "LeaseLost": "tidemill.cluster.errors",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
