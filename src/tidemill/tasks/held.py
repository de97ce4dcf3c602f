"""A task in the hands of this node."""

from msgspec.structs import replace

from tidemill.cluster import Grant
from tidemill.store import Document, Fence
from tidemill.tasks.queue import Queue
from tidemill.tasks.task import TASKS, Progress, Task, task_of


class Held:
    """What a node knows of a task that it has claimed, from the claim to the last write.

    `document` and `task` are as this node last wrote or read them. `lost` is for good: the lease has run out
    or passed on, and nothing may be written any more.
    """

    __slots__ = (
        "begun",
        "cancelling",
        "document",
        "ending",
        "grant",
        "key",
        "lost",
        "noted",
        "progress",
        "queue",
        "since",
        "task",
        "worker",
    )

    def __init__(self, document: Document, queue: Queue, grant: Grant, since: float = 0.0) -> None:
        self.key = document.key
        self.document = document
        self.task: Task = task_of(document)
        self.queue = queue
        self.since = since
        self.grant = grant
        self.lost = False
        self.cancelling = False
        self.ending = False
        """Its last move is on its way."""
        self.noted = False
        """That it runs is written down, or on its way."""
        self.begun: float | None = None
        """When its runner began, on this node's clock."""
        self.progress: Progress | None = None
        """What is to be written down of its progress."""
        self.worker: str | None = None
        """The remote worker that has it."""

    def read(self, document: Document) -> None:
        """Take in what somebody else wrote meanwhile."""
        self.document, self.task = document, task_of(document)
        if self.worker is not None:
            self.give_to(self.worker)

    def give_to(self, worker: str) -> None:
        """That remote worker has it, as its next move will say."""
        self.worker = worker
        self.task = replace(self.task, worker=worker)

    @property
    def fence(self) -> Fence:
        """What every write for the task carries, besides those to the task itself."""
        return Fence(TASKS, self.key, self.grant.term)
