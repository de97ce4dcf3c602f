"""Workers: programs that take tasks from nodes over a WebSocket, and have no database.

The promise: a job's result, once its handler is out, is brought to a node, over as many connections as that
takes, until one has settled it; payloads and results of any size pass in bounded memory; and a worker that is
asked to stop finishes what it has.

    from tidemill.worker import Worker

    Worker("https://tidemill.example.org", lambda job: job.payload.upper(), queue="shout").run()

Words: a *job* is one attempt at a task, as its *handler* sees it; *slots* are how many a worker has at a
time; a *session* is what a node remembers a worker by when it comes back; a result is *settled* when a node
has written it down, or has said that nobody wants it.

Read in this order:
- `wire`     pure: what workers and nodes say to each other
- `session`  pure: a worker's connection and its tasks, event by event
- `job`      a job as its handler sees it, and how handlers are run
- `parcel`   payloads and results on their way, in memory or in files
- `desk`     the tasks that a worker has, and their handlers
- `client`   the connection, made again whenever it is lost
- `address`  where a worker connects, and who it says that it is
- `library`  Worker: all of the above, put together
- `run`      a handler that runs a program for each job
- `errors`   what can go wrong

It stands on base alone. Each name is loaded when it is first used: nodes, which need only the wire, load no
more.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidemill.worker.errors import JobFailed, Refused, WorkerError
    from tidemill.worker.job import Job
    from tidemill.worker.library import Worker
    from tidemill.worker.run import program

__all__ = ["Worker", "Job", "JobFailed", "program", "WorkerError", "Refused"]

_HOMES = {
    "Worker": "tidemill.worker.library",
    "Job": "tidemill.worker.job",
    "JobFailed": "tidemill.worker.errors",
    "program": "tidemill.worker.run",
    "WorkerError": "tidemill.worker.errors",
    "Refused": "tidemill.worker.errors",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
