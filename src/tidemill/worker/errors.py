"""What can go wrong for a worker.

WorkerError
├─ BadAddress      the address names no node that could be reached
├─ BadProgram      the command line names no program
├─ Refused         a node does not want this worker: its token, or its queue
├─ NotSpoken       what answers does not speak the protocol that was asked for
├─ PayloadDamaged  what arrived is not what was sent
└─ JobFailed       a handler raises it: the job cannot be done, with words and logs of its own choice
"""

from tidemill.base.errors import TidemillError


class WorkerError(TidemillError):
    """A worker cannot go on, or its job cannot."""

    code = "worker"


class BadAddress(WorkerError):
    """The address names no node that could be reached. Trying again does not help."""

    code = "worker.bad_address"


class BadProgram(WorkerError):
    """The command line names no program that could be run here."""

    code = "worker.bad_program"


class Refused(WorkerError):
    """A node does not want this worker; the message is its reason. Trying again does not help."""

    code = "worker.refused"


class NotSpoken(WorkerError):
    """What answers at the address does not speak the protocol that was asked for."""

    code = "worker.protocol"


class PayloadDamaged(WorkerError):
    """What arrived is not what was sent, by its size or digest."""

    code = "worker.payload"


class JobFailed(WorkerError):
    """The job cannot be done. `info` is for people at a glance, `logs` for those who look closer."""

    code = "worker.job_failed"

    def __init__(self, info: str, logs: str | None = None) -> None:
        super().__init__(info)
        self.info = info
        self.logs = logs
