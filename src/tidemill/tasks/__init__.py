"""Tasks: queues of durable work, run by nodes, each task with an attempt and a fence.

The promise: a task that was accepted is never lost, whatever dies; it is in the hands of one node at a time,
under a lease; what an attempt writes after it has lost that lease is refused; and no more tasks are in hands
than their queue and their node allow, however many nodes race for them. A task runs at least once.

Words: a *queue* is a named stream of tasks of one kind; an *order* is what somebody wants done, and a *task*
what that becomes; its *status* says how far it is; it is *held* by a node from its claim to its last write; a
*move* is the change from one status to the next, and the only way there; an *orphan* is a task whose node is
lost; a *policy* is what a queue does about failures; a *schedule* is a cron line that makes tasks; a *runner*
is a child process that runs them.

Read in this order:
- `status`     the status codes
- `policy`     pure: how often a task is tried
- `task`       pure: the task, its document, and every move that it can make
- `nesting`    pure: what JSON everybody can read
- `order`      pure: from an order to a task
- `queue`      queues, and the verbs on them
- `registry`   the verbs on tasks: submit, look, cancel, try again, delete
- `batches`    the numbered groups of a remote queue's tasks, seat by seat
- `chains`     results that become tasks of another queue, exactly once
- `parents`    what a job is told before its child goes
- `claim`      pure: what a node claims
- `room`       pure: of which queue a node has room for how much
- `heads`      what comes first in a queue
- `held`       a task in the hands of this node
- `runner`     the processes that run tasks
- `keeping`    from a task to a job, and from how that ended to a move
- `ledger`     moves, written many at a time
- `pieces`     what tasks print, while they run
- `logs`       what tasks print, while they run and after
- `hearing`    how a node hears of what others write
- `errands`    small work beside
- `strays`     what a node has claimed without knowing it
- `execution`  the node's loop: claim, run, write down, let go
- `recovery`   the leader's care: orphans, and tasks that become due
- `forsaken`   the leader's end of tasks whose queue is gone
- `retention`  the leader's removal of tasks that ended long ago
- `leftovers`  the leader's removal of blobs that no task refers to
- `rounds`     how the leader's work is done when there is cause, and only then
- `limits`     what people set for one node
- `schedule`, `schedules`, `scheduler`   cron lines: pure, the verbs, the leader's part
- `balance`, `balancer`                  threads shared out by a calendar: pure, and the leader's part
- `call`       a function call as bytes
- `waiting`    waiting for tasks to end
- `handlers`   what is to be done when a function fails
- `blobs`      what is too large for a document, whose it is, and when it goes
- `intake`     content of any size as it arrives
- `remote`     workers elsewhere, that take tasks over a WebSocket
- `storetime`  the store's clock, seldom asked
- `errors`     what can go wrong

It knows nothing of HTTP, settings files or pipelines.
"""
