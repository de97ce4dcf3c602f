"""One PostgreSQL primary, shared over the network.

- `backend`     the verbs
- `statements`  the SQL of each verb: one statement, whatever the number of documents
- `batch`       how many writes become few statements
- `claims`      claims within exact caps
- `layout`      tables, columns and indexes, and how they grow
- `pool`        the connections: made, checked, repeated where that is safe
- `translate`   driver errors, said in the store's words
- `values`      how Python values travel
- `notify`      how clients tell each other that something changed

Every statement runs under READ COMMITTED, reads the server's clock and not the time its transaction
began, and is on disk when it is answered.
"""

from tidemill.store.backends.postgres.backend import PostgresBackend

__all__ = ["PostgresBackend"]
