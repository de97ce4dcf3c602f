"""The input log, the output log, and the two documents that hold them together.

It promises that an append is in exactly one step that is done, that the output of a step is there once, and
that neither document grows with time.

    writer ──► segment files ──► log head ──► root: step assigned ──► segment files ──► root: step done
               (immutable)       (any process, compare-and-set)       (of the views)    (the owner, by term)

Words: a *segment* is a file of rows of one table or view; a *listing* names several; an *append* has an
*offset*; a *chain* is a list of which a document holds the newest items and pages hold the rest; the
*owner* is the one process whose *term* the root has; a step is *settled* when it is done or aborted.

Read `file`, `segment`, `chain`, `listing`, `head` (appends), `root` (steps, versions, pins), then
`tidemill.pipeline.step` (how steps change the root), `input` and `output` (the logs as a pipeline worker
sees them), and `folder` (one process at a time).
"""
