"""The way from a machine to the store: it delays, loses, cuts, and is sometimes not there at all."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct

from sim.world import SimLoop, World
from tidemill.base.errors import TidemillError
from tidemill.store import Claim, Collection, Document, Lease, Outcome, Unavailable, Write
from tidemill.store.backend import OnChange
from tidemill.store.backends.memory import MemoryBackend, MemoryServer
from tidemill.store.document import Query, Where

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class Observer(Protocol):
    """Who is told of what the server does."""

    def handling(self) -> None:
        """Writes are about to be handled."""

    def accepted(self, writes: Sequence[Write], outcomes: Sequence[Outcome]) -> None:
        """They have been handled."""

    def check_caps(self) -> None:
        """A claim has been handled."""


class Weather(Struct):
    """What the network and the store are like at the moment."""

    delay_s: float = 0.01
    slow_share: float = 0.0
    slow_s: float = 0.0
    lose_request: float = 0.0
    lose_answer: float = 0.0
    reset: float = 0.0
    store_up: bool = True
    refuses: bool = True
    """While the store is down: whether it refuses at once, or swallows requests in silence."""


class SimBackend:
    """A machine's client of the one memory server; every verb is a request and an answer."""

    capabilities = MemoryBackend.capabilities

    def __init__(
        self, world: World, loop: SimLoop, server: MemoryServer, weather: Weather, checks: Observer
    ) -> None:
        self.checks = checks
        self.server = server
        self.loop = loop
        self._world = world
        self._weather = weather
        self.inner = MemoryBackend(server, "0.1.0")

    async def call(self, request: Callable[[], Awaitable[T]]) -> T:
        """Send a request; return its answer, or wait for ever if either is lost."""
        world, weather = self._world, self._weather
        answer: asyncio.Future[T] = self.loop.create_future()

        def arrive() -> None:
            if not weather.store_up:
                if weather.refuses:
                    world.after(self._delay(), lambda: self._fail(answer, maybe_applied=False))
                return
            try:
                result = run_at_once(request())
            except TidemillError as error:
                failure = error
                world.after(self._delay(), lambda: self._settle(answer, error=failure))
                return
            if world.random.random() < weather.lose_answer:
                return
            if world.random.random() < weather.reset:
                world.after(self._delay(), lambda: self._fail(answer, maybe_applied=True))
                return
            world.after(self._delay(), lambda: self._settle(answer, result))

        if world.random.random() >= weather.lose_request:
            world.after(self._delay(), arrive)
        return await answer

    def _delay(self) -> float:
        source, weather = self._world.random, self._weather
        slow = weather.slow_s if source.random() < weather.slow_share else 0.0
        return source.random() * (weather.delay_s + slow)

    def _fail(self, answer: "asyncio.Future[Any]", *, maybe_applied: bool) -> None:
        self._settle(answer, error=Unavailable("simulated", maybe_applied=maybe_applied))

    def _settle(
        self, answer: "asyncio.Future[T]", result: T | None = None, error: Exception | None = None
    ) -> None:
        def settle() -> None:
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(result)  # type: ignore[arg-type]

        if not self.loop.crashed:
            self.loop.call_soon(settle)

    async def open(self) -> None:
        await self.call(self.inner.open)

    async def close(self) -> None:
        await self.inner.close()

    async def prepare(self, collection: Collection) -> None:
        await self.call(lambda: self.inner.prepare(collection))

    async def get_many(self, collection: Collection, keys: Sequence[str]) -> list[Document]:
        return await self.call(lambda: self.inner.get_many(collection, keys))

    async def write(self, writes: Sequence[Write], nonce: int) -> list[Outcome]:
        async def handle() -> list[Outcome]:
            self.checks.handling()
            outcomes = await self.inner.write(writes, nonce)
            self.checks.accepted(writes, outcomes)
            return outcomes

        return await self.call(handle)

    async def nonces(self, collection: Collection, keys: Sequence[str]) -> Mapping[str, tuple[int, int]]:
        return await self.call(lambda: self.inner.nonces(collection, keys))

    async def find(self, collection: Collection, query: Query) -> list[Document]:
        return await self.call(lambda: self.inner.find(collection, query))

    async def count(self, collection: Collection, where: Where, limit: int) -> int:
        return await self.call(lambda: self.inner.count(collection, where, limit))

    async def claim(self, collection: Collection, claim: Claim, nonce: int) -> list[Document]:
        async def handle() -> list[Document]:
            taken = await self.inner.claim(collection, claim, nonce)
            self.checks.check_caps()
            return taken

        return await self.call(handle)

    async def claimed(self, collection: Collection, nonce: int) -> list[Document]:
        return await self.call(lambda: self.inner.claimed(collection, nonce))

    async def hold(
        self, collection: Collection, keys: Sequence[str], holder: str, ttl_ms: int
    ) -> list[Lease]:
        return await self.call(lambda: self.inner.hold(collection, keys, holder, ttl_ms))

    async def renew(self, collection: Collection, terms: Mapping[str, int], ttl_ms: int) -> list[Lease]:
        return await self.call(lambda: self.inner.renew(collection, terms, ttl_ms))

    async def release(self, collection: Collection, terms: Mapping[str, int]) -> None:
        await self.call(lambda: self.inner.release(collection, terms))

    async def now(self) -> int:
        return await self.call(self.inner.now)

    async def oldest_writer(self) -> str:
        return await self.call(self.inner.oldest_writer)

    async def close_to_older(self, release: str) -> None:
        await self.call(lambda: self.inner.close_to_older(release))

    def subscribe(self, channels: Sequence[str], on_change: OnChange) -> None:
        def hear(name: str | None) -> None:
            if self._world.random.random() >= self._weather.lose_answer and not self.loop.crashed:
                self._world.after(self._delay(), lambda: self._tell(on_change, name))

        self.inner.subscribe(channels, hear)

    def _tell(self, on_change: OnChange, name: str | None) -> None:
        if not self.loop.crashed:
            self.loop.call_soon(on_change, name)

    def announce(self, channels: Sequence[str]) -> None:
        self.inner.announce(channels)


def run_at_once(work: Awaitable[T]) -> T:
    """The result of a coroutine that never waits, as those of the memory backend."""
    steps = work.__await__()
    try:
        next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("the memory server waited")
