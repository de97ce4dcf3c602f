"""One module or package per database; each driver is imported nowhere else.

- `memory`    in this process; the simulator's world
- `sql`       what SQLite and PostgreSQL have in common: the statements of a collection
- `sqlite`    one file, the embedded default
- `postgres`  the production default
- `node`      locks and semaphores through a node, for programs without access to the database
"""
