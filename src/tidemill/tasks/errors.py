"""What can go wrong with tasks, grouped by what a caller can do about it.

TaskError
├─ NoSuchTask      there is no task of that id or key
├─ NoSuchQueue     there is no queue of that name
├─ NoSuchSchedule  there is no schedule of that name
├─ NoSuchBatch     the queue has no batch of that number yet
├─ QueueExists     a queue of that name exists; update it, or take another name
├─ ScheduleExists  a schedule of that name exists; update it, or take another name
├─ QueueInUse      the queue has tasks that are not done, or a schedule that makes more; end those first
├─ KeyTaken        another task has that key; it says which
├─ NodeGone        the node that alone was to run a task is not alive, or was marked as dead
├─ IllegalMove     a task in that status cannot be moved so
└─ BadTask         the caller's parameters, queue or schedule cannot be used as they are
"""

from collections.abc import Sequence

from tidemill.base.errors import TidemillError


class TaskError(TidemillError):
    """A task could not be handled as asked."""

    code = "task"


class NoSuchTask(TaskError):
    """There is no task of that id or key."""

    code = "task.not_found"


class NoSuchQueue(TaskError):
    """There is no queue of that name."""

    code = "queue.not_found"


class NoSuchSchedule(TaskError):
    """There is no schedule of that name."""

    code = "schedule.not_found"


class NoSuchBatch(TaskError):
    """The queue has no batch of that number."""

    code = "batch.not_found"


class ScheduleExists(TaskError):
    """A schedule of that name exists already."""

    code = "schedule.conflict"


class QueueExists(TaskError):
    """A queue of that name exists already."""

    code = "queue.conflict"


class QueueInUse(TaskError):
    """The queue has tasks that have not ended, or a schedule creates tasks for it."""

    code = "queue.in_use"


class KeyTaken(TaskError):
    """A task with that key exists; `task` is its id. `made` are the tasks of the same call that were made."""

    code = "task.conflict"

    def __init__(self, key: str, task: str, made: Sequence[str] = ()) -> None:
        super().__init__(f"key {key!r} belongs to task {task}, until that is deleted")
        self.key = key
        self.task = task
        self.made = tuple(made)


class NodeGone(TaskError):
    """The node is not alive, or was marked as dead. Nothing was sent to it; take another."""

    code = "node.gone"


class IllegalMove(TaskError):
    """The task's status does not allow what was asked. Nothing was changed."""

    code = "task.illegal_move"


class BadTask(TaskError):
    """What was asked for can never be done as it stands."""

    code = "task.bad_request"
