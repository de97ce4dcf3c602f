"""One seed of a pipeline, from an empty store to a verdict."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from sim.checks import Breach
from sim.network import SimBackend, Weather
from sim.pipeline.checks import PipelineChecks
from sim.pipeline.owner import SimOwner
from sim.pipeline.plan import TROUBLED_S, Plan, Trouble, draw_plan
from sim.pipeline.producer import Diary, SimProducer
from sim.pipeline.wire import SimFiles, Wire
from sim.pipeline.worker import SimBody, SimWorker, add_up
from sim.run import EPOCH_MS, Verdict, quiet_logs
from sim.world import SimLoop, World
from tidemill.base.errors import TidemillError
from tidemill.pipeline.coordinator import NoSharedVersion
from tidemill.pipeline.lifecycle import IllegalMove
from tidemill.pipeline.log import chain
from tidemill.store.backends.memory import MemoryServer

SETTLED_WITHIN_S = 180.0


class PipelineSimulation:
    """Owners, pipeline workers and producers that share one store and one disk."""

    def __init__(
        self,
        seed: int,
        *,
        owner_type: type[SimOwner] = SimOwner,
        worker_type: type[SimWorker] = SimWorker,
        body_type: type[SimBody] = SimBody,
    ) -> None:
        self.world = World(seed)
        self.plan: Plan = draw_plan(seed)
        self.weather = Weather()
        self.server = MemoryServer(lambda: EPOCH_MS + int(self.world.now * 1000))
        self.disk: dict[str, bytes] = {}
        self.checks = PipelineChecks(self.world, self.disk)
        self.files = SimFiles(self.world, self.disk)
        self.wire = Wire(self.world, self.weather)
        self.owners: list[SimOwner] = []
        self.workers: list[SimWorker] = []
        self.producers: list[SimProducer] = []
        self.loops: list[SimLoop] = []
        self._types = owner_type, worker_type, body_type

    def run(self) -> Verdict:
        breach: str | None = None
        try:
            with small_pages():
                self._live()
        except Breach as error:
            breach = str(error)
            self.world.note("BREACH", breach)
        finally:
            for loop in self.loops:
                loop.drain()
        seen, troubles = self.checks, len(self.plan.troubles)
        return Verdict(
            self.world.seed, breach, self.world.now, seen.runs_seen, seen.writes, troubles, self.world.trace
        )

    def _live(self) -> None:
        self.world.after_event.append(self._raise_failures)
        diaries = [
            Diary(f"producer{at}", self.world.random, count) for at, count in enumerate(self.plan.producers)
        ]
        self.producers = [self._make_producer(diary) for diary in diaries]
        self._add_owner()
        for trouble in self.plan.troubles:
            self.world.after(trouble.at, partial(self._strike, trouble))
        self.world.run_until(TROUBLED_S)
        if self.owners[-1].over or self.owners[-1].loop.crashed:
            self._add_owner()
        if not self.world.run_until(self.world.now + SETTLED_WITHIN_S, lambda: self._settled(diaries)):
            raise Breach(f"{self.checks.unsettled()} appends are left, {SETTLED_WITHIN_S:g} s later")
        self.checks.check_all(add_up)

    def _settled(self, diaries: list[Diary]) -> bool:
        return all(diary.done == len(diary.rows) for diary in diaries) and not self.checks.unsettled()

    def _raise_failures(self) -> None:
        """What a machine ran into may only be what Tidemill can name, and no confusion."""
        for loop in self.loops:
            for task in [task for task in loop.tasks if task.done()]:
                loop.tasks.remove(task)
                error = None if task.cancelled() else task.exception()
                if isinstance(error, Breach):
                    raise error
                if error is not None and (
                    not isinstance(error, TidemillError) or isinstance(error, IllegalMove | NoSharedVersion)
                ):
                    raise Breach(f"{loop.name} failed: {error!r}")
            if loop.failures:
                raise Breach(f"{loop.name} failed: {loop.failures[0]!r}")

    # Machines

    def _loop(self, name: str) -> SimLoop:
        source = self.world.random
        loop = SimLoop(self.world, name, 100.0 + source.random(), source.uniform(0.9, 1.1))  # type: ignore[abstract]
        self.loops.append(loop)
        return loop

    def _connect(self, loop: SimLoop) -> Callable[[], SimBackend]:
        return lambda: SimBackend(self.world, loop, self.server, self.weather, self.checks)

    def _add_owner(self) -> None:
        loop = self._loop(f"owner{len(self.owners)}")
        owner = self._types[0](
            loop.name, loop, self._connect(loop), self.wire, self.files, self.checks, self._launch
        )
        self.owners.append(owner)
        owner.boot()

    def _launch(self, owner: SimOwner, index: int, attempt: int) -> SimWorker:
        loop = self._loop(f"{owner.name}/w{index}.{attempt}")
        worker = self._types[1](loop.name, loop, self._types[2](index, attempt, owner, loop))
        self.workers.append(worker)
        return worker

    def _make_producer(self, diary: Diary) -> SimProducer:
        loop = self._loop(diary.name)
        producer = SimProducer(diary, loop, self._connect(loop), self.files, self.checks)
        producer.boot()
        return producer

    # Troubles

    def _strike(self, trouble: Trouble) -> None:
        self.world.note("trouble", f"{trouble.kind} for {trouble.seconds:.1f} s")
        match trouble.kind:
            case "crash owner":
                self.owners[-1].loop.crashed = True
                self.world.after(trouble.seconds, self._add_owner)
            case "stall owner":
                self._stall(self.owners[-1].loop, trouble.seconds)
                self.world.after(trouble.seconds * trouble.which * 1.5, self._add_owner)
            case "second owner":
                self._add_owner()
            case "crash worker" | "stall worker":
                self._strike_worker(trouble)
            case "crash producer":
                self._crash_producer(trouble)
            case _:
                self._change_weather(trouble)

    def _stall(self, loop: SimLoop, seconds: float) -> None:
        loop.paused = True
        self.world.after(seconds, loop.resume)

    def _strike_worker(self, trouble: Trouble) -> None:
        living = [worker for worker in self.workers if worker.loop.lives]
        if not living:
            return
        loop = living[int(trouble.which * len(living))].loop
        if trouble.kind == "crash worker":
            loop.crashed = True
        else:
            self._stall(loop, trouble.seconds)

    def _crash_producer(self, trouble: Trouble) -> None:
        at = int(trouble.which * len(self.producers))
        if self.producers[at].loop.crashed:
            return
        self.producers[at].loop.crashed = True
        diary = self.producers[at].diary

        def restart() -> None:
            self.producers[at] = self._make_producer(diary)

        self.world.after(trouble.seconds, restart)

    def _change_weather(self, trouble: Trouble) -> None:
        changes: dict[str, dict[str, float | bool]] = {
            "store down": {"store_up": False, "refuses": True},
            "store silent": {"store_up": False, "refuses": False},
            "slow": {"slow_share": 0.3, "slow_s": self.world.random.uniform(0.5, 4.0)},
            "lossy": {"lose_request": 0.2, "lose_answer": 0.2},
            "resets": {"reset": 0.3},
        }
        changed, calm = changes[trouble.kind], Weather()
        for name, value in changed.items():
            setattr(self.weather, name, value)

        def clear() -> None:
            for name in changed:
                setattr(self.weather, name, getattr(calm, name))

        self.world.after(trouble.seconds, clear)


@contextmanager
def small_pages() -> Iterator[None]:
    """Chains roll after a few items, so that a short run has pages of pages."""
    before, chain.PAGE = chain.PAGE, 4
    try:
        yield
    finally:
        chain.PAGE = before


def simulate_pipeline(seed: int) -> Verdict:
    """Run one seed with the product's own code."""
    with quiet_logs():
        return PipelineSimulation(seed).run()
