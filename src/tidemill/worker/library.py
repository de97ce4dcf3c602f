"""The worker for programs in Python."""

import asyncio
import signal
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

from tidemill.base.log import get_logger
from tidemill.worker import wire
from tidemill.worker.address import addresses, machine_identity, machine_name
from tidemill.worker.client import Client, Profile
from tidemill.worker.errors import BadAddress
from tidemill.worker.job import Handler

log = get_logger("tidemill.worker")


@dataclass
class Worker:
    """A program that does the jobs of a queue, one by one or `slots` at a time.

    `url` is the address of a node, or several: of those, the next is tried when one cannot be reached.
    `handler` is given a `Job` and returns its result: bytes, a file, or None for an empty one; what it
    raises fails the job. A handler that is no `async def` has a thread for each job.

    `id` should stay the same over restarts; it is by default that of the machine and the queue, so that
    several workers of one queue on one machine need ids of their own. `ca` is a file of certificates to
    trust instead of the system's, `folder` is where large payloads are kept meanwhile, `ping_s` how often a
    quiet connection is tried. `plain` speaks the protocol without task ids: one job at a time, and a result
    is lost with its connection.
    """

    url: str | Sequence[str]
    handler: Handler
    _: KW_ONLY
    queue: str | None = None
    name: str | None = None
    id: str | None = None
    token: str | None = field(default=None, repr=False)
    slots: int = 1
    plain: bool = False
    ca: Path | None = None
    folder: Path | None = None
    ping_s: float = 20.0

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise ValueError(f"slots is {self.slots}; a worker has at least 1")
        if self.plain and self.slots > 1:
            raise ValueError("the plain protocol knows of one job at a time: slots must be 1")
        self._profile = self._made_profile()
        self._client: Client | None = None

    def run(self, connected: Callable[[], None] | None = None) -> None:
        """Work until SIGTERM or SIGINT, or until `stop`. Raises `Refused` when no node wants this worker.

        After the first signal it finishes the jobs that it has; a second one ends it at once, and raises
        `KeyboardInterrupt`. `connected` is called once, when a node has let this worker in.
        """
        if not asyncio.run(self._run(connected)):
            raise KeyboardInterrupt

    async def serve(self, connected: Callable[[], None] | None = None) -> None:
        """Work until `stop`. When cancelled it ends at once, and what it has is given to other workers.

        `connected` is called once, when a node has let this worker in.
        """
        self._client = Client(self._profile, self.handler, connected)
        try:
            await self._client.serve()
        finally:
            self._client = None

    def stop(self) -> None:
        """Take no more jobs, finish those that are there, then end. It may be called from any thread."""
        if self._client is not None:
            self._client.stop()

    def _made_profile(self) -> Profile:
        hello = wire.Registered(
            name=self.name or machine_name(),
            id=self.id or machine_identity(self.queue),
            token=self.token or "",
            slots=self.slots,
        )
        where = addresses(self.url, self.queue)
        tls = _trusting(self.ca) if self.ca is not None else None
        return Profile(where, hello, self.queue or "default", self.plain, tls, self.folder, self.ping_s)

    async def _run(self, connected: Callable[[], None] | None) -> bool:
        serving = asyncio.create_task(self.serve(connected))
        with _on_signals(lambda times: self._signalled(serving, times)):
            await asyncio.wait({serving})
        if serving.cancelled():
            return False
        serving.result()
        return True

    def _signalled(self, serving: "asyncio.Task[None]", times: int) -> None:
        if times == 1:
            log.info("worker.stopping", hint="finishes what it has; once more ends it at once")
            self.stop()
        else:
            serving.cancel()


def _trusting(ca: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise BadAddress(f"{ca} is no file of certificates: {error}") from error


@contextmanager
def _on_signals(tell: Callable[[int], None]) -> Iterator[None]:
    """Tell of each signal to stop, and how many there were. Outside of the main thread there are none."""
    loop = asyncio.get_running_loop()
    times = 0

    def count() -> None:
        nonlocal times
        times += 1
        tell(times)

    caught: list[tuple[signal.Signals, Any]] = []
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            before = signal.getsignal(number)
            try:
                loop.add_signal_handler(number, count)
            except (NotImplementedError, RuntimeError, ValueError):
                break
            caught.append((number, before))
        yield
    finally:
        for number, before in caught:
            loop.remove_signal_handler(number)
            signal.signal(number, before)
