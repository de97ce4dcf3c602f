"""Places where a crash test can kill or stop the process.

The environment variable `TIDEMILL_FAILPOINT` names a point, `state.manifest.before_sync`, or its n-th
passing, `state.manifest.before_sync:3`. Whoever reaches it dies at once, as by a power cut of the process:
no handler runs. `TIDEMILL_PAUSEPOINT` names one likewise; whoever reaches that one stops until somebody
continues it, as a machine that hangs. Without the variables nothing happens.
"""

import itertools
import os
import signal

VARIABLE = "TIDEMILL_FAILPOINT"
PAUSE_VARIABLE = "TIDEMILL_PAUSEPOINT"

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

POINTS = (
    *STATE_POINTS,
    "log.segment.after_write",
    "log.listing.after_write",
    "log.page.after_write",
    "log.append.before_head",
    "log.append.after_head",
    "log.trim.before_head",
    "root.write.before",
    "root.write.after",
    "engine.open.after_take_over",
    "engine.step.after_assign",
    "engine.step.after_run",
    "engine.step.after_sync",
    "engine.step.after_output",
    "engine.plan.after_blob",
    "engine.plan.after_root",
    "engine.commit.after_root",
    "engine.commit.after_trim",
)
"""Every point there is."""

_SIGNALS = ((VARIABLE, signal.SIGKILL), (PAUSE_VARIABLE, signal.SIGSTOP))
_passings = {variable: itertools.count(1) for variable, _ in _SIGNALS}


def reach(name: str) -> None:
    """Die or stop here if this point, at this passing of it, is the one that the environment names."""
    for variable, number in _SIGNALS:
        point, _, passing = os.environ.get(variable, "").partition(":")
        if point == name and next(_passings[variable]) == int(passing or 1):
            os.kill(os.getpid(), number)
