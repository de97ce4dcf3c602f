"""Places where a crash test can kill the process.

The environment variable `TIDEMILL_FAILPOINT` names a point, `state.manifest.before_sync`, or its n-th
passing, `state.manifest.before_sync:3`. Whoever reaches it dies at once, as by a power cut of the process:
no handler runs. Without the variable nothing happens.
"""

import itertools
import os
import signal

VARIABLE = "TIDEMILL_FAILPOINT"

STATE_POINTS = (
    "state.seal.before_write",
    "state.seal.after_write",
    "state.merge.before_write",
    "state.merge.after_write",
    "state.manifest.before_sync",
    "state.manifest.after_sync",
    "state.manifest.after_write",
    "state.sweep.before_delete",
    "state.sweep.after_delete",
)
"""Every point in `tidemill.pipeline.state`: between any two of its writes."""

_passings = itertools.count(1)


def reach(name: str) -> None:
    """Die here if this point, at this passing of it, is the one that the environment names."""
    wanted = os.environ.get(VARIABLE)
    if wanted is None:
        return
    point, _, passing = wanted.partition(":")
    if point == name and next(_passings) == int(passing or 1):
        os.kill(os.getpid(), signal.SIGKILL)
