"""Chaos: real processes on a real database, hurt at random, and every accepted write judged.

The promise: whatever is killed, stopped or cut off, never do two hold one thing under valid terms, no write
under a passed term is accepted, nothing that was acknowledged is lost, and in the end everything is done.

An *agent* is a process that takes part in a cluster and does all that can be done under a lease: it leads,
works on partitions, takes a lock and a semaphore. Each act is an *entry* in the store, written under its
fence. A *careless* agent never looks at its own clock, so that only the store can stop it. The *stage* holds
the database and the agents, and starts again what dies. *Faults* hurt them, drawn from a seed. The *recorder*
is a set of triggers inside the database, so it sees every accepted write and knows nothing of our code. The
*checks* are pure: from what was recorded, and what agents said, to what is wrong.

Read in this order: `words` (what agents and checks agree on), `acts` (what an agent does), `agent` (the
process), `recorder`, `checks`, `stage`, `faults`, `run` (one store from start to verdict), `report`,
`__main__` (`make chaos`).
"""
