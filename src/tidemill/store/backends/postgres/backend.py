"""The verbs of a backend, each one round trip to PostgreSQL."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidemill.store.backend import OnChange
from tidemill.store.backends.postgres import batch, claims, layout, statements
from tidemill.store.backends.postgres.notify import Announcer, Listener
from tidemill.store.backends.postgres.pool import Connection, Pool, Request, Row
from tidemill.store.backends.postgres.values import Integers, Texts
from tidemill.store.backends.sql import document_of, selected, table
from tidemill.store.document import (
    Capabilities,
    Claim,
    Collection,
    Document,
    Lease,
    Lost,
    Outcome,
    Query,
    Where,
    Write,
)
from tidemill.store.errors import BadRequest, NoStore, Unavailable
from tidemill.store.release import newer, refuse_if_older

_render = statements.PostgresRender()
_ASK_AGAIN = 5
_RELEASE = "SELECT value FROM tidemill_meta WHERE name = 'oldest_writer'"
_RAISE_RELEASE = "UPDATE tidemill_meta SET value = %s WHERE name = 'oldest_writer' AND value = %s RETURNING 1"


class PostgresBackend:
    """Documents in one PostgreSQL database. Time is the server's."""

    capabilities = Capabilities(watch="push", server_time=True, shared="network")

    def __init__(self, url: str, release: str, connections: int, *, create: bool = True) -> None:
        self._release = release
        self._create = create
        self._pool = Pool(url, connections)
        self._announcer = Announcer(self._pool)
        self._listener: Listener | None = None

    async def open(self) -> None:
        await self._pool.open()
        try:
            await self._lay_foundation()
            refuse_if_older(self._release, await self.oldest_writer())
        except BaseException:
            await self._pool.close()
            raise

    async def close(self) -> None:
        if self._listener is not None:
            await self._listener.close()
            self._listener = None
        await self._announcer.close()
        await self._pool.close()

    async def prepare(self, collection: Collection) -> None:
        for _ in range(_ASK_AGAIN):
            there = await self._pool.rows(layout.THERE, {"table": table(collection)})
            script = layout.missing(collection, (name for (name,) in there))
            if script is None:
                return
            await self._run_script(script)
        raise Unavailable(f"{self._pool.server}: the layout of {collection.name} keeps changing")

    async def get_many(self, collection: Collection, keys: Sequence[str]) -> list[Document]:
        rows = await self._pool.rows(statements.by_key(collection), [Texts(keys)])
        return [document_of(collection, row) for row in rows]

    async def write(self, writes: Sequence[Write], nonce: int) -> list[Outcome]:
        groups = batch.plan(writes)
        parts = [[writes[at] for at in group] for group in groups]
        requests = [batch.request(part, nonce) for part in parts]
        answers = await self._answers(requests, writes=True)
        result: list[Outcome] = [Lost()] * len(writes)
        for group, part, rows in zip(groups, parts, answers, strict=True):
            for at, outcome in zip(group, batch.outcomes(part, rows), strict=True):
                result[at] = outcome
        return result

    async def nonces(self, collection: Collection, keys: Sequence[str]) -> Mapping[str, tuple[int, int]]:
        text = f"SELECT key, revision, nonce FROM {table(collection)} WHERE key = ANY(%s)"
        rows = await self._pool.rows(text, [Texts(keys)])
        return {key: (revision, nonce) for key, revision, nonce in rows}

    async def find(self, collection: Collection, query: Query) -> list[Document]:
        rows = await self._pool.rows(*_render.find(collection, query))
        return [document_of(collection, row, query.fields) for row in rows]

    async def count(self, collection: Collection, where: Where, limit: int) -> int:
        conditions, values = _render.where(where)
        [[count]] = await self._pool.rows(statements.counting(collection, conditions), [*values, limit])
        return int(count)

    async def claim(self, collection: Collection, claim: Claim, nonce: int) -> list[Document]:
        rows = (await self._answers(claims.requests(collection, claim, nonce), writes=True))[-1]
        return sorted((document_of(collection, row) for row in rows), key=lambda taken: taken.term)

    async def claimed(self, collection: Collection, nonce: int) -> list[Document]:
        text = f"SELECT {selected(collection)} FROM {table(collection)} WHERE nonce = %s ORDER BY term"
        return [document_of(collection, row) for row in await self._pool.rows(text, [nonce])]

    async def hold(
        self, collection: Collection, keys: Sequence[str], holder: str, ttl_ms: int
    ) -> list[Lease]:
        return await self._leases(
            statements.hold(collection),
            keys,
            lambda wanted: {"keys": Texts(wanted), "holder": holder, "ttl": ttl_ms},
            every=True,
        )

    async def renew(self, collection: Collection, terms: Mapping[str, int], ttl_ms: int) -> list[Lease]:
        return await self._leases(
            statements.renew(collection),
            list(terms),
            lambda wanted: {**_term_arrays({key: terms[key] for key in wanted}), "ttl": ttl_ms},
            every=False,
        )

    async def release(self, collection: Collection, terms: Mapping[str, int]) -> None:
        await self._pool.rows(statements.release(collection), _term_arrays(terms))

    async def now(self) -> int:
        [[now]] = await self._pool.rows(f"SELECT {statements.NOW}")
        return int(now)

    async def oldest_writer(self) -> str:
        [[release]] = await self._pool.rows(_RELEASE)
        return str(release)

    async def close_to_older(self, release: str) -> None:
        while True:
            before = await self.oldest_writer()
            after = newer(release, before)
            if after == before or await self._pool.rows(_RAISE_RELEASE, [after, before]):
                return

    def subscribe(self, channels: Sequence[str], on_change: OnChange) -> None:
        if self._listener is None:
            self._listener = Listener(self._pool, on_change)
        self._listener.add(channels)

    def announce(self, channels: Sequence[str]) -> None:
        self._announcer.announce(channels)

    async def _lay_foundation(self) -> None:
        [[version, encoding, laid]] = await self._pool.rows(layout.FOUND)
        if version < layout.OLDEST_SERVER:
            raise BadRequest(f"{self._pool.server} is too old; PostgreSQL 13 or newer is needed")
        if encoding != "UTF8":
            raise BadRequest(f"{self._pool.server}: the database's encoding is {encoding}; it must be UTF8")
        if not laid and not self._create:
            raise NoStore(f"{self._pool.server}: the database is there, but no store in it")
        if not laid:
            await self._run_script(layout.foundation())

    async def _run_script(self, script: str) -> None:
        async def act(connection: Connection) -> None:
            # Several statements go in one message only where they have no parameters.
            await connection.execute(script, prepare=False)

        await self._pool.run(act)

    async def _answers(self, requests: Sequence[Request], *, writes: bool) -> list[list[Row]]:
        if len(requests) == 1:
            return [await self._pool.rows(*requests[0], writes=writes)]
        return await self._pool.rows_each(requests, writes=writes)

    async def _leases(
        self,
        text: str,
        keys: Sequence[str],
        params: Callable[[Sequence[str]], dict[str, Any]],
        *,
        every: bool,
    ) -> list[Lease]:
        """Ask again for what was out of date and, where `every` key must be there, for what is missing."""
        found: dict[str, Lease] = {}
        wanted = sorted(set(keys))
        for _ in range(_ASK_AGAIN):
            rows = await self._pool.rows(text, params(wanted)) if wanted else []
            found |= {row[0]: Lease(*row[:5]) for row in rows}
            stale = {row[0] for row in rows if row[5]}
            wanted = [key for key in wanted if key in stale or (every and key not in found)]
            if not wanted:
                break
        return list(found.values())


def _term_arrays(terms: Mapping[str, int]) -> dict[str, Any]:
    keys = sorted(terms)
    return {"keys": Texts(keys), "terms": Integers(terms[key] for key in keys)}
