"""Jobs and workers over HTTP, as whoever has work for remote workers sees them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx2

from e2e.nodes import until
from e2e.plain_worker import TIMEOUT_S

PENDING, COMPLETE, FAILED = -2, 1, 2


class Jobs:
    """Calls of one node; one that is refused fails the test."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client

    async def queue(self, **fields: Any) -> str:
        """Make a queue for remote workers, under a name that no other has."""
        name = f"type-{uuid4().hex[:12]}"
        await self._ok("POST", "/api/v1/queues", json={"name": name, "kind": "remote", **fields})
        return name

    async def submit(
        self, payload: bytes, queue: str | None = None, *, priority: str = "batch", **fields: str
    ) -> dict[str, Any]:
        """What is answered: `id`, `key` and `batch`."""
        path = "/api/jobs/submit" if queue is None else f"/api/jobs/submit/{queue}"
        form = {"priority": priority, **fields}
        answer = await self._ok("POST", path, files={"payload": payload}, data=form)
        assert answer.status_code == 202
        body: dict[str, Any] = answer.json()
        assert body.keys() >= {"id", "key", "batch"}
        return body

    async def task(self, task: str) -> dict[str, Any]:
        body: dict[str, Any] = (await self._ok("GET", f"/api/v1/tasks/{task}")).json()
        return body

    async def seen(self, task: str, wanted: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """The task, once it is as wanted."""
        found: dict[str, Any] = {}

        async def so() -> bool:
            found.update(await self.task(task))
            return bool(wanted(found))

        try:
            async with asyncio.timeout(TIMEOUT_S):
                await until(so)
        except TimeoutError:
            raise AssertionError(f"the task stayed {found}") from None
        return found

    async def ended(self, task: str) -> dict[str, Any]:
        return await self.seen(task, lambda seen: seen["status"] in (COMPLETE, FAILED))

    async def pending(self, task: str) -> dict[str, Any]:
        return await self.seen(task, lambda seen: seen["status"] == PENDING)

    async def result(self, task: str) -> bytes:
        """The result of a job that has succeeded, or is about to."""
        ended = await self.ended(task)
        assert ended["status"] == COMPLETE, ended
        return bytes((await self._ok("GET", f"/api/jobs/{task}/result")).content)

    async def payload(self, task: str) -> bytes:
        return bytes((await self._ok("GET", f"/api/v1/tasks/{task}/payload")).content)

    async def tasks(self, queue: str) -> list[dict[str, Any]]:
        answer = await self._ok("GET", "/api/v1/tasks", params={"queue": queue, "limit": 500})
        found: list[dict[str, Any]] = answer.json()["tasks"]
        return found

    async def worker(self, identity: str, **counts: int) -> dict[str, Any]:
        """What is known of the worker, once its counts are these."""
        found: dict[str, Any] = {}

        async def so() -> bool:
            workers = (await self._ok("GET", "/api/v1/workers")).json()["workers"]
            found.update(next((one for one in workers if one["id"] == identity), {}))
            return all(found.get(name) == count for name, count in counts.items())

        try:
            async with asyncio.timeout(TIMEOUT_S):
                await until(so)
        except TimeoutError:
            raise AssertionError(f"wanted {counts}, the worker stayed {found}") from None
        return found

    async def _ok(self, method: str, path: str, **fields: Any) -> httpx2.Response:
        answer = await self.client.request(method, path, **fields)
        assert answer.is_success, (path, answer.status_code, answer.text)
        return answer


@asynccontextmanager
async def jobs_of(address: str, token: str | None = None) -> AsyncIterator[Jobs]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(base_url=address, timeout=60, headers=headers) as client:
        yield Jobs(client)
