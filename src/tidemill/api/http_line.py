"""An executor's way to a cluster through one of its nodes, for programs that cannot reach its store."""

import asyncio
import base64
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import httpx2

from tidemill.api.line import Ended
from tidemill.base.errors import TidemillError
from tidemill.base.ids import new_token
from tidemill.base.log import Sparing, get_logger
from tidemill.store import BadRequest, Unavailable
from tidemill.tasks.errors import BadTask, IllegalMove, NoSuchQueue, NoSuchTask, TaskError
from tidemill.tasks.queue import Queue
from tidemill.tasks.task import Progress

log = get_logger("tidemill.http_line")

MOST_IDS = 200
WAIT_S = 20.0
GATHER_S = 0.01
"""How long to wait for others before asking: each question to come is another connection."""

AGAIN_S = 0.5
BATCH = 1000
BATCH_BYTES = 16 * 1024 * 1024
"""What is sent at once is bounded by what a node takes, which base64 makes a third larger."""

_ERRORS: dict[str, type[TaskError]] = {
    error.code: error for error in (BadTask, IllegalMove, NoSuchQueue, NoSuchTask)
}


class HttpLine:
    """Through a node. A token with the role function submits and hears; to cancel needs an operator's.

    While the node cannot be reached, waiting goes on; a submission is tried again for `timeout_s`, and is
    carried out once however often it is sent.
    """

    def __init__(
        self, url: str, token: str | None, ended: Callable[[str, Ended | None], None], timeout_s: float
    ) -> None:
        parts = urlsplit(url)
        if not parts.hostname or parts.path not in ("", "/") or parts.password:
            raise BadRequest("write the address of a node as http://host:port, or http://TOKEN@host:port")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        place = f"{host}:{parts.port}" if parts.port else host
        secret = token or parts.username
        self._server = f"the node at {place}"
        self._client = httpx2.AsyncClient(
            base_url=f"{parts.scheme}://{place}/api/v1",
            headers={"Authorization": f"Bearer {secret}"} if secret else {},
            timeout=timeout_s,
            trust_env=False,  # a node is reached directly
        )
        self._timeout_s = timeout_s
        self._ended = ended
        self._expected: dict[str, None] = {}
        self._more = asyncio.Event()
        self._waiting: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await self._outcomes([], 0)  # tells at once that there is no node, or that the token is not right
        self._waiting = asyncio.create_task(self._wait())

    async def is_attended(self) -> bool:
        return True  # a node has just answered

    async def close(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.gather(self._waiting, return_exceptions=True)
        await self._client.aclose()

    async def ensure_queue(self, queue: Queue) -> None:
        """Queues are for operators to make, so this is left until a submission finds none."""

    async def submit(self, queue: str, calls: Sequence[bytes]) -> list[str]:
        ids: list[str] = []
        for batch in _batches(calls):
            orders = [{"queue": queue, "payload": base64.b64encode(call).decode()} for call in batch]
            try:
                made = await self._post_surely("/tasks", orders)
            except NoSuchQueue:
                with suppress(BadRequest):  # this token may not, or somebody else just did
                    await self._ask("POST", "/queues", json={"name": queue, "kind": "function"})
                made = await self._post_surely("/tasks", orders)
            ids += made["ids"]
        return ids

    def expect(self, tasks: Sequence[str], *, fresh: bool = False) -> None:
        del fresh  # a node is asked in any case
        self._expected.update(dict.fromkeys(tasks))
        self._more.set()

    async def cancel(self, task: str, reason: str) -> bool:
        del reason  # a node does not ask for one
        try:
            await self._ask("POST", f"/tasks/{task}/cancel")
        except (IllegalMove, NoSuchTask):
            return False
        return True

    async def progress(self, task: str) -> Progress | None:
        told = (await self._ask("GET", f"/tasks/{task}")).get("progress")
        return None if told is None else Progress(told.get("percent"), told.get("info"))

    # Inside

    async def _wait(self) -> None:
        away = Sparing(log)
        while True:
            await self._more.wait()
            await asyncio.sleep(GATHER_S)
            self._more.clear()
            try:
                await self._look()
                away.over()
            except TidemillError as error:
                away.warn("waiting.node", error=str(error), code=error.code)
                await asyncio.sleep(AGAIN_S)
            if self._expected:
                self._more.set()

    async def _look(self) -> None:
        """Ask for all, and wait for the last of them; a newly expected one cuts the wait short."""
        expected, last = list(self._expected), min(len(self._expected), MOST_IDS)
        for at in range(0, len(expected) - last, MOST_IDS):
            self._tell(await self._outcomes(expected[at : at + MOST_IDS], 0))
        # With more than can be waited for at once, the others are asked for again soon.
        wait_s = WAIT_S if len(expected) <= MOST_IDS else AGAIN_S
        asking = asyncio.create_task(self._outcomes(expected[len(expected) - last :], wait_s))
        more = asyncio.create_task(self._more.wait())
        try:
            await asyncio.wait([asking, more], return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                self._tell(asking.result())
        finally:
            asking.cancel()
            more.cancel()
            await asyncio.gather(asking, more, return_exceptions=True)

    def _tell(self, ended: Mapping[str, Any]) -> None:
        for key, told in ended.items():
            if key in self._expected:
                del self._expected[key]
                self._ended(key, None if told is None else _ended(told))

    async def _outcomes(self, keys: Sequence[str], wait_s: float) -> Mapping[str, Any]:
        query = {"ids": ",".join(keys), "wait": wait_s}
        answer = await self._ask("GET", "/outcomes", params=query, timeout=self._timeout_s + wait_s)
        found: Mapping[str, Any] = answer["ended"]
        return found

    async def _post_surely(self, path: str, content: Any) -> Any:
        """Send it until it is answered; the node knows a repeat by its key."""
        headers = {"Idempotency-Key": new_token()}
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                return await self._ask("POST", path, json=content, headers=headers)
            except Unavailable:
                if time.monotonic() + AGAIN_S > deadline:
                    raise
            await asyncio.sleep(AGAIN_S)

    async def _ask(self, method: str, path: str, **options: Any) -> Any:
        try:
            response = await self._client.request(method, path, **options)
        except httpx2.HTTPError as error:
            told = str(error) or type(error).__name__
            raise Unavailable(f"{self._server} cannot be reached: {told}", maybe_applied=True) from error
        if response.is_success:
            return response.json()
        raise self._refused(response)

    def _refused(self, response: httpx2.Response) -> TidemillError:
        try:
            told = response.json()
            code, detail = told["code"], told["detail"]
        except (ValueError, KeyError, TypeError):
            code, detail = "", "see whether a node of Tidemill is there"
        if code in _ERRORS:
            return _ERRORS[code](detail)
        told = f"{self._server} refused with {response.status_code}: {detail}"
        return Unavailable(told) if response.is_server_error else BadRequest(told)


def _batches(calls: Sequence[bytes]) -> Iterator[list[bytes]]:
    """The calls in order, as many at a time as a node takes in one request."""
    batch: list[bytes] = []
    size = 0
    for call in calls:
        if batch and (len(batch) == BATCH or size + len(call) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(call)
        size += len(call)
    if batch:
        yield batch


def _ended(told: Mapping[str, Any]) -> Ended:
    outcome = told["outcome"]
    return Ended(told["status"], told["reason"], None if outcome is None else base64.b64decode(outcome))
