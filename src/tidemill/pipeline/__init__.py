"""Pipelines: tables, views and their circuit, advanced step by step; a step costs what changed.

It promises that after every step each view is exactly what Spark SQL would answer on the tables, that the
cost of a step follows the change and not the tables, and that a crash anywhere neither loses nor repeats a
change.

Words: a *Z-set* is rows with integer weights; a *circuit* is the views lowered to operators; an
*arrangement* is the running sum of a stream of Z-sets, sorted by the hash of a key; a *run* is one
immutable sorted file of it; a *shard* is one of `SHARDS` slices of the hash; an *exchange* sends rows to
the pipeline worker that owns their shard; a *stage* is what runs between two exchanges.

Read `types`, `zset` (rows with weights), `plan` (expressions, nodes, circuit, stages), `expressions`
(trees compiled to Arrow calls), `operators` (one file each), `state` (runs, spines, manifests), `log`
(input and output), `step` (what the next step takes), `worker` (runs the operators of some shards),
`runtimes` (how pipeline workers are run), `coordinator` (start, pause, stop, recover), `engine` (one
pipeline from open to close), `continuous` (an engine that the coordinator drives), `timing` (how long a step
took, and for which views).

It knows nothing of SQL text and of Catalyst: `tidemill.sql` hands it circuits.
"""
