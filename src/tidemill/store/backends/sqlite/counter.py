"""Numbers that only grow and are never drawn twice, for revisions and terms.

The file keeps how far numbers have been reserved. A connection reserves a block at a time and draws
from it, without another page to write, for as long as nobody else has written to the file. Once
somebody has, they may have drawn higher numbers, so the rest of the block is given up for a new one.
"""

import apsw

BLOCK = 100


class Counter:
    """One connection's block. Every method is called by whoever has the connection at the moment."""

    def __init__(self) -> None:
        self._next = 0
        self._end = 0
        self._version = -1
        self._drew = False

    def draw(self, connection: apsw.Connection, n: int) -> int:
        """The first of `n` numbers higher than any drawn before, inside a write transaction."""
        if self._next + n > self._end or connection.data_version() != self._version:
            text = "UPDATE tidemill_counter SET drawn = drawn + ? RETURNING drawn"
            self._end = int(connection.execute(text, (n + BLOCK,)).get) + 1
            self._next = self._end - n - BLOCK
        first, self._next = self._next, self._next + n
        self._drew = True
        return first

    def committed(self, connection: apsw.Connection) -> None:
        """Our own transaction ended well: the file is as this connection left it.

        After one that drew nothing, others may still have drawn since the block was reserved.
        """
        if self._drew:
            self._version = connection.data_version()
            self._drew = False

    def rolled_back(self) -> None:
        """What was reserved in the transaction is not; begin with a new block."""
        self._version = -1
        self._drew = False
