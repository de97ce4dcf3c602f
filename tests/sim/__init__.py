"""The simulator: the real code of store, cluster, tasks and pipeline, in a world of made-up time and failure.

The promise: a run is a function of its seed. What fails once fails again, with one command.

A *world* holds the true time and the events to come. Each *machine* runs one node on an event loop of
its own, whose clock is off by an offset and a rate; it can be paused, and crashed at any await. All
machines talk to one memory server over a *network* that delays, loses and cuts. A *plan* drawn from
the seed says what goes wrong when. *Checks* watch every accepted write and every belief.

Read in this order: `world` (time and event loops), `network`, `plan`, `node` (what runs on a machine),
`checks`, `run` (one seed from start to verdict), `__main__` (many seeds, or one again). `semaphores`,
`partitions`, `tasks` and `pipeline` are other worlds on the same ground.
"""
