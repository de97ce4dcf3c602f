"""Whatever is lost and made again, in any order: a result is sent until it is settled, and never after."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidemill.worker import wire
from tidemill.worker.session import (
    Begin,
    Cancel,
    Connected,
    Deliver,
    Effect,
    Ended,
    Event,
    Forget,
    Heard,
    Line,
    Lost,
    Produced,
    Send,
    Stage,
    State,
    Stopping,
    step,
)
from tidemill.worker.wire import TaskRef

TASKS = [TaskRef(f"task-{number}", number) for number in range(4)]
SMALL, LARGE = Produced(b"small", 5), Produced(bytes(wire.INLINE_BYTES + 1), wire.INLINE_BYTES + 1)

# What happens, and to which of the tasks. What cannot happen now is passed over.
MOVES = st.tuples(
    st.sampled_from(
        [
            "give",
            "stream",
            "end",
            "end large",
            "settle",
            "cancel",
            "lose",
            "connect",
            "welcome",
            "take over",
            "ask",
        ]
    ),
    st.sampled_from(TASKS),
)


class World:
    """A worker, and a node that may do anything that the protocol allows."""

    def __init__(self, slots: int) -> None:
        self.state = State(wire.Registered("vm", "vm-1", "", slots))
        self.handlers: set[TaskRef] = set()
        self.told: set[TaskRef] = set()
        self.given: set[TaskRef] = set()
        self.ended: set[TaskRef] = set()
        self.over: set[TaskRef] = set()
        self.sent: set[TaskRef] = set()
        self.fences = {ref.task: ref.fence for ref in TASKS}

    def tell(self, event: Event) -> None:
        self.state, effects = step(self.state, event)
        for effect in effects:
            self.see(effect)
        running = [work for work in self.state.works.values() if work.stage in (Stage.RUNNING, Stage.DROPPED)]
        assert len(running) == len(self.handlers) <= self.state.hello.slots

    def see(self, effect: Effect) -> None:
        match effect:
            case Begin(ref):
                assert ref not in self.told, "no handler runs twice"
                self.handlers.add(ref)
                self.told.add(ref)
            case Cancel(ref):
                assert ref in self.handlers
            case Forget(ref):
                assert ref not in self.handlers
                assert ref not in self.state.works
            case Send(wire.Result(task, fence)) | Deliver(_, _, wire.Result(task, fence)):
                ref = next(one for one in TASKS if one.task == task)
                assert fence == self.fences[task], "nodes know it by that"
                assert self.state.line is Line.UP
                assert ref in self.ended - self.over
                self.sent.add(ref)

    def move(self, what: str, ref: TaskRef) -> None:
        up, down = self.state.line is Line.UP, self.state.line is Line.DOWN
        match what:
            case "give" | "stream" if up and ref not in self.given:
                self.give(ref, stream=what == "stream")
            case "end" | "end large" if ref in self.handlers:
                self.end(ref, SMALL if what == "end" else LARGE)
            case "settle" if up and ref in self.sent - self.over:
                self.settle(ref)
            case "cancel" if up and ref in self.given:
                self.over.add(ref)
                self.tell(Heard(wire.Cancelled(ref.task, self.fences[ref.task], "")))
            case "lose" if not down:
                self.sent.clear()
                self.tell(Lost())
            case "connect" if down:
                self.tell(Connected())
            case "welcome" if self.state.line is Line.GREETING:
                self.welcome({ref} & self.given - self.over)
            case "take over" if self.state.line is Line.GREETING:
                self.take_over(self.given - self.over)
            case "ask" if up:
                self.tell(Heard(wire.StatusAsked()))

    def give(self, ref: TaskRef, *, stream: bool) -> None:
        self.given.add(ref)
        number = len(self.given)
        content: dict[str, Any] = {"stream": number, "size": 0} if stream else {"content": ""}
        self.tell(Heard(wire.TaskGiven(ref.task, ref.fence, 1, "q", **content)))
        if stream:
            self.tell(Heard(wire.StreamEnded(number, "")))

    def end(self, ref: TaskRef, outcome: Produced) -> None:
        self.handlers.discard(ref)
        if self.state.works[ref].stage is Stage.RUNNING:
            self.ended.add(ref)
        self.tell(Ended(ref, outcome))

    def settle(self, ref: TaskRef) -> None:
        self.over.add(ref)
        self.tell(Heard(wire.Settled(ref.task, self.fences[ref.task], True)))

    def take_over(self, kept: set[TaskRef]) -> None:
        """Another node goes on with those, each with a fence of its own."""
        for ref in kept:
            self.fences[ref.task] += 100
        self.welcome(kept)

    def welcome(self, kept: set[TaskRef]) -> None:
        self.over |= self.given - self.ended - kept
        refs = tuple(TaskRef(ref.task, self.fences[ref.task]) for ref in kept)
        self.tell(Heard(wire.Welcome("s", 1000, refs)))
        assert self.ended - self.over <= self.sent, "all that has ended is sent after a welcome"


@given(slots=st.integers(1, 3), moves=st.lists(MOVES, max_size=60))
def test_each_result_is_sent_until_it_is_settled_and_never_after(
    slots: int, moves: list[tuple[str, TaskRef]]
) -> None:
    world = World(slots)
    for what, ref in moves:
        world.move(what, ref)

    # Once all is calm, every task that was wanted to the end has been sent, and can be settled.
    world.tell(Lost())
    world.sent.clear()
    world.tell(Connected())
    world.take_over(world.given - world.over)
    while world.handlers:
        world.end(next(iter(world.handlers)), SMALL)
    assert world.sent >= world.ended - world.over
    for ref in world.ended - world.over:
        world.settle(ref)
    world.tell(Stopping())

    assert world.state.works == {}
    assert world.state.finished
