"""Everything that a node does about tasks: it runs them and, while it leads, looks after all of them."""

from collections.abc import Callable, Mapping
from functools import partial

from tidemill.app.audit_retention import AuditRetention
from tidemill.app.bind import is_loopback
from tidemill.app.mask import masked
from tidemill.app.settings import Settings
from tidemill.app.tokens import Keyring, objection_to_worker
from tidemill.base.errors import TidemillError
from tidemill.base.log import get_logger
from tidemill.cluster import Duty, HeartThread, Timing
from tidemill.cluster.keeper import Keeper
from tidemill.cluster.standing import Event
from tidemill.store import Fence, Store
from tidemill.tasks.balance import Settings as BalanceSettings
from tidemill.tasks.balancer import Balancer
from tidemill.tasks.blobs import Shelves, announce_blobs
from tidemill.tasks.chains import Chains
from tidemill.tasks.claim import Choice, Seat
from tidemill.tasks.execution import Execution, Place
from tidemill.tasks.forsaken import Forsaken
from tidemill.tasks.handlers import Handlers
from tidemill.tasks.held import Held
from tidemill.tasks.keeping import Keeping
from tidemill.tasks.leftovers import Leftovers
from tidemill.tasks.queue import ensure_default
from tidemill.tasks.recovery import Promotion, Recovery
from tidemill.tasks.registry import Registry
from tidemill.tasks.remote.dispatch import Dispatch
from tidemill.tasks.remote.session import Rules
from tidemill.tasks.retention import Retention
from tidemill.tasks.runner import Plugins, Pool
from tidemill.tasks.runner.job import Recycle
from tidemill.tasks.scheduler import Scheduler
from tidemill.tasks.task import TASKS

log = get_logger("tidemill.tasking")

NO_BOUND_MB = 2**31


class Tasking:
    """A node's part in tasks. Start it once the heart beats; give `on_event` what the heart tells."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        name: str,
        token: str,
        fence: Callable[[], Fence],
        plugins: Plugins,
    ) -> None:
        self.shelves = Shelves(store, settings.blobs)
        self.registry = Registry(store, shelves=self.shelves)
        self.plugins = plugins
        self._settings = settings
        self._store = store
        self._token = token
        timing = Timing(settings.ttl_s)
        seat = Seat(name, token, timing.ttl_ms)
        choice = Choice(settings.activequeues, settings.ignorequeues)
        self.execution = Execution(
            store,
            Place(seat, settings.slots, choice, settings.maxthreads),
            self._pool,
            Keeping(self.shelves, {"node": name}, settings.gfs),
            knows=lambda plugin: plugin in self._known,
            timing=timing,
        )
        self._known = frozenset(self.plugins.names())
        self.dispatch = Dispatch(
            self.registry,
            seat,
            self.shelves,
            partial(objection_to_worker, Keyring(store, open_without_tokens=is_loopback(settings.host))),
            rules=Rules(settings.worker_grace_s, message_bytes=settings.worker_message_mb * 2**20),
            timing=timing,
        )
        balance = BalanceSettings(**settings.balance.model_dump())
        leading = {
            "recovery": Recovery(store, token, timing).lead,
            "promotion": Promotion(store).lead,
            "handlers": Handlers(self.registry, name, token, timing).lead,
            "schedules": Scheduler(store, self.registry.submit, fence).lead,
            "balance": Balancer(store, fence, balance).lead,
            "retention": Retention(self.registry, fence).lead,
            "chains": Chains(self.registry).lead,
            "forsaken": Forsaken(self.registry).lead,
            "leftovers": Leftovers(self.registry).lead,
            "audit": AuditRetention(store, fence, settings.audit_keep_days).lead,
        }
        self._duties = [Duty(duty, lead) for duty, lead in leading.items()]

    async def start(self, heart: HeartThread) -> None:
        """Begin to run tasks. Their leases are renewed on the heart's thread."""
        if masked(self._settings.blobs) == self._settings.blobs:
            # An address with a secret in it is for those only who are told it.
            await announce_blobs(self._store, self._settings.blobs)
        loop_lose = heart.on_loop(self.execution.lose)
        await heart.run_beside(lambda store: self._keeper(store, self.execution.held, loop_lose))
        await self.execution.start()
        await ensure_default(self._store)
        loop_lose = heart.on_loop(self.dispatch.jobs.lose)
        await heart.run_beside(lambda store: self._keeper(store, self.dispatch.jobs.held, loop_lose))
        await self.dispatch.start()

    async def stop(self) -> None:
        """Give everything back. The heart must still beat: leases are renewed until the last write."""
        for duty in self._duties:
            await duty.stop()
        for service in (self.dispatch, self.execution):
            try:
                await service.stop()
            except TidemillError as error:
                log.warning("tasks.not_given_back", error=str(error), code=error.code)

    def on_event(self, event: Event) -> None:
        for duty in self._duties:
            duty.on_event(event)

    def _keeper(self, store: Store, held: Mapping[str, Held], lose: Callable[[Held], None]) -> Keeper[Held]:
        return Keeper(store, TASKS, self._token, held, lose, timing=self.execution.timing)

    def _pool(self, execution: Execution) -> Pool:
        recycle = Recycle(self._settings.runner_tasks, self._settings.runner_memory_mb or NO_BOUND_MB)
        folder = self._settings.data.absolute() / "runners" / self._token
        return Pool(self._settings.slots, execution, self.plugins, folder, recycle)


def plugins_of(settings: Settings) -> Plugins:
    """The plugins that the settings let this node run."""
    named = settings.plugins
    programs = {name: command for name, command in named.items() if command}
    task_runner = None if settings.task_runner is None else str(settings.task_runner)
    return Plugins([name for name in named if name not in programs], programs, task_runner)
