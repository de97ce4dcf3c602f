"""A node: everything that one Tidemill process is, put together here and nowhere else.

socket ─► store ─► name ─► heart (own thread, own connection) ─► duties ─► HTTP
"""

import asyncio
import shutil
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn
from fastapi import APIRouter

from tidemill.app.bind import url_of
from tidemill.app.http import build_app, load_extensions, server_config
from tidemill.app.http.context import ClusterView, NodeView
from tidemill.app.settings import SettingError, Settings
from tidemill.app.settings_store import SETTINGS, read_cluster_settings
from tidemill.app.tasking import Tasking, plugins_of
from tidemill.base.clock import boot_clock
from tidemill.base.errors import TidemillError
from tidemill.base.ids import new_token
from tidemill.base.log import get_logger
from tidemill.cluster import HeartThread, Timing, join, list_nodes
from tidemill.cluster.figures import Alarm
from tidemill.cluster.listing import Listing
from tidemill.cluster.nodes import Node as Entry
from tidemill.cluster.nodes import entry_of, node_name
from tidemill.cluster.reports import Reporter
from tidemill.cluster.standing import Event
from tidemill.store import Locked, Store, Unavailable, open_store
from tidemill.tasks.runner import Plugins
from tidemill.tasks.runner.trial import try_plugins

log = get_logger("tidemill.node")

WATCH_POLL_S = 60.0

UNANSWERED_MS = 60_000
"""How long what was sent may stay without a receipt of the other machine, before a connection is given up."""

START_S = 60.0
"""For how long a node that starts waits for a store that others keep busy."""


class PortTaken(TidemillError):
    """The address to listen on cannot be had."""

    code = "node.port"


async def run_node(settings: Settings, announce: Callable[["Node"], None] = lambda _: None) -> None:
    """Be a node until interrupted, terminated or cancelled, then leave the cluster in order.

    `announce` is called once the node listens. Leaving lets go of the leases, so that others take over
    at once; a node that is killed is missed after one lease.
    """
    check_startable(settings)
    extensions = load_extensions(settings)
    stop = asyncio.Event()
    with stopping_by_signal(stop), listening(settings) as listener:
        settings = settings.model_copy(update={"port": listener.getsockname()[1]})
        give_up = boot_clock() + START_S
        while True:
            try:
                async with open_store(settings.store) as store, joined(settings, store) as node:
                    async with serving(node, listener, extensions) as server:
                        announce(node)
                        return await _first(stop.wait(), server)
            except Locked as error:
                # A hundred nodes that start at once keep each other from a file for longer than a call waits.
                if stop.is_set() or boot_clock() > give_up:
                    raise
                log.warning("node.waits_for_store", error=str(error))


def check_startable(settings: Settings) -> None:
    """Refuse what would only show once the node has joined and leads."""
    if settings.store.startswith("memory:"):
        origin = settings.origin("store")
        raise SettingError(
            "store", settings.store, origin, "a store that the heart's own connection can share"
        )
    if settings.task_runner is not None and shutil.which(settings.task_runner) is None:
        origin = settings.origin("task_runner")
        raise SettingError(
            "task_runner", str(settings.task_runner), origin, "a program that this user may run"
        )
    if settings.tls_cert is not None and settings.tls_key is not None:
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
                settings.tls_cert, settings.tls_key
            )
        except OSError as error:
            files = f"{settings.tls_cert}, {settings.tls_key}"
            allowed = f"a certificate chain and its key in PEM files ({error})"
            raise SettingError("tls_cert and tls_key", files, settings.origin("tls_cert"), allowed) from error


def address_of(settings: Settings) -> str:
    """Where other nodes reach this one."""
    return url_of(settings, wildcard=socket.gethostname())


class Node:
    """One process of the cluster, as the HTTP routes see it."""

    def __init__(
        self, settings: Settings, store: Store, token: str, key: str, started: int, plugins: Plugins
    ) -> None:
        self.settings = settings
        self.store = store
        self.token = token
        self.name = node_name(key)
        self._cas = 0
        self._timing = Timing(settings.ttl_s)
        self._heart = HeartThread(settings.store, token, key, self._timing, self._on_event)
        self.tasking = Tasking(settings, store, self.name, token, self._heart.fence, plugins)
        entry = entry_of(
            key,
            token,
            address=address_of(settings),
            slots=settings.slots,
            started=started,
            plugins=plugins.names(),
            broken=plugins.broken(),
        )
        self._listing = Listing(store, key, entry, self._heart.fence, self._timing)
        self._reporter = Reporter(store, self._heart, self._timing, key=key)
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        await self._heart.start()
        await self._reporter.start()
        await self.tasking.start(self._heart)
        self._spawn(self._follow_settings())

    async def stop(self) -> None:
        await self.tasking.stop()
        await self._listing.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._reporter.stop()
        await self._heart.stop()

    # What the routes ask

    def cluster(self) -> ClusterView:
        standing = self._heart.standing
        return ClusterView(
            node=self.token,
            name=self.name,
            leader=self._leader(),
            term=standing.term,
            cas=self._cas,
            trusted=self._leads(),
            skew_ms=self._heart.statistics().skew_ms,
        )

    async def nodes(self) -> list[NodeView]:
        leader = self._leader()
        return [
            NodeView(
                name=node.name,
                token=node.token,
                address=node.address,
                slots=node.slots,
                release=node.release,
                started=node.started,
                seen=max(node.expire - self._timing.ttl_ms, node.started),
                alive=node.alive,
                leader=node.token == leader,
                plugins=node.plugins,
                broken=node.broken,
            )
            for node in await self._list_nodes()
        ]

    def problems(self) -> list[str]:
        standing, age_s = self._heart.standing, self._heart.statistics().age_s
        found = []
        if age_s > self._timing.trust_s:
            found.append(f"the store has not answered for {age_s:.1f} s")
        elif standing.node is None:
            found.append(f"another node has taken the name {self.name!r}; start this one under another")
        if self._leader() is None:
            found.append("no leader is known")
        if self.tasking.execution.trouble is not None:
            found.append(f"tasks cannot be run here: {self.tasking.execution.trouble}")
        return found

    def alarms(self) -> list[Alarm]:
        return self._reporter.alarms()

    def metrics(self) -> Mapping[str, float]:
        beats, heart_store = self._heart.statistics(), self._heart.store_statistics()
        return {
            "lease_age_seconds": beats.age_s,
            "lease_renew_slowest_seconds": beats.slowest_s,
            "lease_renew_seconds_total": beats.answers_s,
            "lease_renewals_total": beats.beats,
            "lease_renewals_missed_total": beats.missed,
            "lease_renewals_late_total": beats.late,
            "clock_skew_seconds": beats.skew_ms / 1000,
            "leader": float(self._leads()),
            "term": self._heart.standing.term,
            "heart_store_calls_total": heart_store.calls,
            "heart_store_unavailable_total": heart_store.unavailable,
        }

    # Inside

    def _leader(self) -> str | None:
        """The leader's token, for as long as its lease ran when the store last said so."""
        standing = self._heart.standing
        return standing.leader if boot_clock() < standing.leader_until else None

    async def _list_nodes(self) -> list[Entry]:
        try:
            async with asyncio.timeout(self._timing.trust_s):
                return await list_nodes(self.store)
        except TimeoutError as error:
            raise Unavailable("the store did not say in time which nodes there are") from error

    def _leads(self) -> bool:
        grant = self._heart.standing.leadership
        return grant is not None and grant.trusted(boot_clock())

    def _on_event(self, event: Event) -> None:
        self._listing.on_event(event)
        self.tasking.on_event(event)

    async def _follow_settings(self) -> None:
        """Know the revision of the cluster-wide settings, and say when they change."""
        while True:
            try:
                async with self.store.watch(SETTINGS, poll_s=WATCH_POLL_S) as watch:
                    while True:
                        revision = (await read_cluster_settings(self.store)).revision
                        if self._cas and revision != self._cas:
                            log.info("settings.changed", note="taken up when a node starts")
                        self._cas = revision
                        await watch.wait()
            except TidemillError:
                await asyncio.sleep(self._timing.ttl_s)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


@asynccontextmanager
async def joined(settings: Settings, store: Store) -> AsyncIterator[Node]:
    """A node that has a name in the cluster and beats; it leaves at the end."""
    token = new_token()
    timing = Timing(settings.ttl_s)
    plugins = plugins_of(settings)
    # Before there is a lease to be kept, as it takes its time.
    await try_plugins(plugins, settings.data.absolute() / "runners" / f"{token}-trial")
    key = await join(store, settings.name, settings.port, token, address_of(settings), timing)
    node = Node(settings, store, token, key, await store.now(), plugins)
    try:
        await node.start()
        log.info("node.joined", name=node.name, token=token)
        yield node
    finally:
        await node.stop()
        log.info("node.left", name=node.name, token=token)


@asynccontextmanager
async def serving(
    node: Node, listener: socket.socket, extensions: Sequence[APIRouter]
) -> AsyncIterator["asyncio.Task[None]"]:
    """HTTP on the listener; the task ends early only when the server fails."""
    app = build_app(node, extensions)
    server = _Server(server_config(app, node.settings))
    task = asyncio.create_task(server.serve(sockets=[listener]), name="http")
    try:
        yield task
    finally:
        app.state.leaving.set()
        await node.tasking.dispatch.leave()
        server.should_exit = True
        await task


class _Server(uvicorn.Server):
    """Leaves signals to the node."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def listening(settings: Settings) -> Iterator[socket.socket]:
    """A bound socket. Having the port, we know that no other process of this address is alive."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # Named as TCP: only then does asyncio send answers at once, and not after the caller's delayed receipt.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            # A machine that is gone is noticed by pings that nobody takes; a worker that is just busy is not.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNANSWERED_MS)
        try:
            listener.bind((settings.host, settings.port))
        except OSError as error:
            raise PortTaken(
                f"cannot listen on {settings.host} port {settings.port}: {error.strerror}; "
                "choose another with --port, or --port 0 for any free one"
            ) from error
        listener.listen(128)
        yield listener


@contextmanager
def stopping_by_signal(stop: asyncio.Event) -> Iterator[None]:
    """Set `stop` on Ctrl-C and on SIGTERM; a second signal ends the process as usual."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)

    def on_signal() -> None:
        stop.set()
        for number in signals:
            loop.remove_signal_handler(number)

    for number in signals:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


async def _first(stopped: Coroutine[Any, Any, Any], server: "asyncio.Task[None]") -> None:
    """Wait for the signal, or for the server to fail, whose error is then raised."""
    waiting = asyncio.create_task(stopped)
    try:
        await asyncio.wait([waiting, server], return_when=asyncio.FIRST_COMPLETED)
        if server.done():
            server.result()
    finally:
        waiting.cancel()
