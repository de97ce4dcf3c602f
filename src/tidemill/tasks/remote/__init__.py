"""Remote workers: programs in any language that take tasks over a WebSocket, through any node.

The promise: a job that was accepted is done, whichever worker, node or connection dies; it is with one worker
at a time; a worker that went away with it is replaced; and what a worker that speaks `tidemill.worker.v1` has
computed is taken, also after its node was restarted, and by any other node.

The node that has a worker's connection claims jobs for it, holds their leases and renews them. A worker has
no lease and no database: it has a task's fence, and that is what it shows.

Words: a *job* is a task of a queue of kind remote; a *worker* is a program, known by the id that it registers
with; a *session* is what a node knows of one connection of a worker; a *link* is that connection itself.

Read in this order:
- `session`    pure: every message, every violation, every moment at which something is due
- `uploads`    results that come in pieces
- `link`       the session and its socket: carries out what the session says
- `roster`     the workers that are there, those that are gone, and what each has done
- `adoption`   a worker comes with tasks that it was given over another connection
- `jobs`       what the workers of this node have, and what is written down about it
- `dispatch`   the node's loop: claims jobs for its workers, and hears what they say

Below it are `tidemill.tasks` (what a task is, and its ledger) and `tidemill.worker.wire` (the messages).
"""
