"""How a node runs tasks: in processes that know nothing but the one job they are given.

The promise: every job that is handed in is told to have ended exactly once, with what it wrote; then nothing
of it runs any more, no grandchild either. Whatever a job does (hang, die, print without end, fill the disk,
leave processes behind) ends that job with a plain reason, and the pool goes on. Nothing outlives the pool,
however it ends.

Words: a *job* is one attempt at one task, as it is run; the *pool* has everything that is known of jobs, in
the node's event loop; the *starter* is the process that forks all children and buries them; a *warm runner*
is a child that runs jobs of Python, one after another; a *program* is a child that runs one job in any
language; a *baton* is the right to begin a job, held by the runner or by the pool, never by both.

Read in this order:
- `job`        the seam: what comes in, and what is told
- `pool`       hands jobs to children
- `pace`       pure: how many jobs to hand out ahead
- `attended`   what the pool does about any child: follow, limit, stop
- `overstep`   pure: whether a job takes too much
- `capture`    the files that catch what a child writes
- `folder`     where those files lie
- `warm`       a warm runner, as the pool has it
- `program`    a program, as the pool has it
- `plugins`    which plugins there are, and how one in Python is run
- `trial`      whether plugins can be run here
- `answer`     pure: what plugins and programs answer
- `wire`       what processes say to each other
- `starting`   the starter, as the pool has it
- `starter`    the starter itself
- `child`      the warm runner itself
- `current`    the job, as the code that runs sees it
- `processes`  what the kernel knows

It knows nothing of stores, leases, queues or retries. The pool is loaded when it is first asked for: the
starter and the runners do without it, and are the smaller for that.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidemill.tasks.runner.job import (
    Crashed,
    Ending,
    Finished,
    Job,
    Limits,
    Listener,
    Output,
    Recycle,
    Stopped,
    Untouched,
    limits_of,
)
from tidemill.tasks.runner.plugins import NoPlugin, Plugins

if TYPE_CHECKING:
    from tidemill.tasks.runner.pool import Pool, Statistics

__all__ = [
    "Pool",
    "Plugins",
    "NoPlugin",
    "Job",
    "Limits",
    "limits_of",
    "Recycle",
    "Listener",
    "Ending",
    "Finished",
    "Crashed",
    "Stopped",
    "Untouched",
    "Output",
    "Statistics",
]


def __getattr__(name: str) -> Any:
    if name in ("Pool", "Statistics"):
        return getattr(import_module("tidemill.tasks.runner.pool"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
