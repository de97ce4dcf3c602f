"""Tasks in the simulator: real execution nodes, with the leader's care for orphans and for what is due.

Clients submit tasks, cancel some, try some again, park and delete some. What runs them is made up: runners
take their time, fail, crash, hang, print, and stop late. Machines crash, stand still past their leases and
go on as zombies, leave in order, and come back under the same name, also while the old process still lives.

Read in this order: `runners` and `node` (what runs on a machine), `client`, `checks` with `moves` (what must
hold), `run` (one seed).
"""
