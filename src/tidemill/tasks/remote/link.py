"""A worker's connection: its session, its socket, and what passes between them and the dispatcher."""

import asyncio
import contextlib
import hashlib
from typing import Any, BinaryIO, Protocol

from msgspec import Struct

from tidemill.base.clock import Clock, boot_clock
from tidemill.base.log import get_logger
from tidemill.store.blobs import BlobError, BlobRef
from tidemill.tasks.blobs import Shelves, inline_content
from tidemill.tasks.held import Held
from tidemill.tasks.intake import Intake
from tidemill.tasks.policy import Policy
from tidemill.tasks.remote import session as sessions
from tidemill.tasks.remote.session import Assigned, Rules, Session
from tidemill.tasks.remote.uploads import Uploads, result_name
from tidemill.worker import wire
from tidemill.worker.wire import TaskRef

log = get_logger("tidemill.link")

PIECE_BYTES = 1024 * 1024


class Socket(Protocol):
    """The connection itself. Sending on one that is gone raises `ConnectionError`."""

    async def send_text(self, text: str) -> None: ...

    async def send_bytes(self, content: bytes, *, more: bool = False) -> None:
        """A binary message, or with `more` a piece of one."""

    async def close(self, code: int, reason: str) -> None: ...


class Desk(Protocol):
    """What a link tells about its worker: `tidemill.tasks.remote.dispatch.Dispatch`."""

    async def enrol(self, link: "Link", worker: wire.Registered) -> "Enrolment": ...

    def free(self, link: "Link") -> None: ...

    def occupied(self, link: "Link") -> None: ...

    def progressed(self, link: "Link", ref: TaskRef, percent: float | None, info: str | None) -> None: ...

    async def succeeded(self, link: "Link", ref: TaskRef, value: Any) -> None: ...

    async def failed(self, link: "Link", ref: TaskRef, info: str | None, logs: str | None) -> None: ...

    def lapsed(self, link: "Link", ref: TaskRef, reason: str) -> None: ...

    def stuck(self, link: "Link", ref: TaskRef, silent_s: float) -> None: ...

    def dropped(self, link: "Link", what: str) -> None: ...


class Enrolment(Struct, frozen=True):
    """The answer to a registration: a session and the tasks that the worker keeps, or why it is refused."""

    session: str = ""
    kept: tuple[Assigned, ...] = ()
    refused: str | None = None


class Link:
    """One worker that is connected. Whoever has the socket calls `heard`, and `left` at its end."""

    def __init__(
        self, socket: Socket, desk: Desk, shelves: Shelves, queue: str, *, plain: bool, rules: Rules,
        clock: Clock = boot_clock,
    ) -> None:  # fmt: skip
        self.queue = queue
        self.session = Session(plain, clock())
        self.closed = False
        self._socket = socket
        self._desk = desk
        self._shelves = shelves
        self._rules = rules
        self._clock = clock
        self._uploads = Uploads(shelves)
        self._reserved: set[str] = set()
        self._sending = asyncio.Lock()
        self._streams = 0
        self._stream: int | None = None
        self._arriving: Intake | None = None
        """The result of a plain worker, of which some has come."""
        self._arrived: Any = None
        """What stands for it in a document, once it is whole."""
        self._passing_over = False
        self._due = 0.0
        self._changed = asyncio.Event()
        """Something is due sooner than it was."""

    @property
    def worker(self) -> wire.Registered:
        assert self.session.worker is not None, "only those who have registered are enrolled"
        return self.session.worker

    @property
    def is_amid(self) -> bool:
        """Whether some of a binary message has come, and not all."""
        return self._passing_over or self._arriving is not None or self._stream is not None

    @property
    def age_s(self) -> float:
        return self._clock() - self.session.opened

    @property
    def room(self) -> int:
        """How many more jobs it would take."""
        return 0 if self.closed else max(self.session.room - len(self._reserved), 0)

    # What the worker says

    async def heard(self, message: str | bytes) -> None:
        """Take in one message, and do all that follows from it."""
        now = self._clock()
        if isinstance(message, str):
            await self._do(sessions.heard(self.session, message, now))
        elif self.session.plain or self.session.worker is None:
            await self._do(sessions.heard_bytes(self.session, len(message), message, now))
        elif self.session.refused is None:
            try:
                stream, piece = wire.from_chunk(message)
                await self._uploads.put(stream, piece)
                self._passed()
            except wire.BadMessage as error:
                await self.close(sessions.POLICY, str(error))
            except (BlobError, OSError) as error:
                await self._cannot_keep(error)

    async def heard_piece(self, piece: bytes, *, more: bool) -> None:
        """Take in some of a binary message that is too large to be had whole."""
        if not self.session.plain:
            await self._heard_chunk(piece, more)
        elif not self._passing_over:
            try:
                await self._heard_result(piece, more)
            except (BlobError, OSError) as error:
                await self._forget_arriving()
                self._passing_over = True
                failed = wire.encoded(wire.Failed(info=f"its result could not be kept: {error}"))
                await self._do(sessions.heard(self.session, failed, self._clock()))
        self._passing_over = self._passing_over and more

    async def _heard_chunk(self, piece: bytes, more: bool) -> None:
        """Of one that is larger than pieces need be; only its beginning says of which stream it is."""
        if self._stream is None:
            await self.heard(piece)
            self._stream = int.from_bytes(piece[:4])
        else:
            await self.heard(wire.chunk(self._stream, piece))
        self._stream = self._stream if more else None

    async def _heard_result(self, piece: bytes, more: bool) -> None:
        if self._arriving is None:
            if not (self.session.tasks and self.session.refused is None):
                self._passing_over = True  # it breaks the protocol, or comes too late, whatever it is
                return await self.heard(piece)
            self._arriving = Intake(self._shelves, result_name(self.session.tasks[0].ref))
        await self._arriving.write(piece)
        self._passed()
        if not more:
            self._arrived = await self._arriving.finish()
            size = self._arriving.size
            await self._do(sessions.heard_bytes(self.session, size, b"", self._clock()))
            await self._forget_arriving()
        return None

    async def _forget_arriving(self) -> None:
        """Nothing is left of a result that nobody took."""
        arriving, self._arriving, self._arrived = self._arriving, None, None
        if arriving is not None:
            await arriving.__aexit__()

    async def keep_time(self) -> None:
        """Do what is due when time passes, until the link is closed."""
        while not self.closed:
            self._due = sessions.due(self.session, self._rules)
            self._changed.clear()
            try:
                async with asyncio.timeout(max(self._due - self._clock(), 0.0)):
                    await self._changed.wait()
            except TimeoutError:
                await self._tick()

    async def _tick(self) -> None:
        """What cannot be said, as the worker reads nothing, is left unsaid once something else is due."""
        step = sessions.ticked(self.session, self._clock(), self._rules)
        rest_s = sessions.due(step[0], self._rules) - self._clock()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(rest_s if rest_s > 0 else None):
                await self._do(step)

    async def forget(self) -> None:
        """What had not come whole when the connection ended is of no use."""
        await self._forget_arriving()

    def left(self) -> None:
        """The connection is gone."""
        self.closed = True
        self._changed.set()
        self._uploads.discard()

    # What the dispatcher wants

    def reserve(self, task: str) -> None:
        """A place is taken for that task, which will be given soon."""
        self._reserved.add(task)

    async def give(self, held: Held) -> None:
        """Send the worker a task. Raises `BlobError` if its payload cannot be had, and `ConnectionError`."""
        try:
            content = inline_content(held.task.payload) if held.task.payload is not None else b""
            if content is not None:
                await self._give_small(held, content)
            elif self.session.plain:
                await self._give_whole(held)
            else:
                await self._give_stream(held)
        finally:
            self._reserved.discard(held.key)

    async def withdraw(self, ref: TaskRef, reason: str) -> None:
        """Nobody wants that of it any more."""
        await self._do(sessions.withdrawn(self.session, ref, reason, self._clock()))

    async def settle(self, ref: TaskRef, accepted: bool, reason: str | None = None) -> None:
        """Tell what became of a result. A plain worker is not told."""
        if not self.session.plain:
            await self._do(
                (self.session, (sessions.Send(wire.Settled(ref.task, ref.fence, accepted, reason)),))
            )

    async def close(self, code: int, reason: str) -> None:
        """End the connection, and tell the worker why."""
        if not self.closed:
            self.closed = True
            self._changed.set()
            await self._socket.close(code, _fitting(reason))

    # Inside

    async def _give_small(self, held: Held, content: bytes) -> None:
        async with self._sending:
            self._assign(held)
            if self.session.plain:
                await self._socket.send_bytes(content)
            else:
                await self._socket.send_text(wire.encoded(_given(held, content=wire.inline(content))))

    async def _give_whole(self, held: Held) -> None:
        """A large payload as the one message that a plain worker expects, though never whole in memory."""
        ref = BlobRef.from_json(held.task.payload)
        blobs = await self._shelves.open()
        source = await asyncio.to_thread(blobs.open, ref)
        try:
            async with self._sending:
                self._assign(held, whole=False)
                sent = 0
                while sent < ref.size:
                    content = await asyncio.to_thread(source.read, PIECE_BYTES)
                    sent += len(content)
                    await self._socket.send_bytes(content, more=sent < ref.size)
                    self._passed()
                self._become(sessions.sent(self.session, TaskRef(held.key, held.grant.term), self._clock()))
        finally:
            source.close()

    async def _give_stream(self, held: Held) -> None:
        ref = BlobRef.from_json(held.task.payload)
        blobs = await self._shelves.open()
        source = await asyncio.to_thread(blobs.open, ref)
        try:
            self._streams += 1
            stream = self._streams
            async with self._sending:
                self._assign(held)
                await self._socket.send_text(wire.encoded(_given(held, stream=stream, size=ref.size)))
            await self._send_stream(stream, source)
        finally:
            source.close()

    async def _send_stream(self, stream: int, source: BinaryIO) -> None:
        digest = hashlib.sha256()
        while content := await asyncio.to_thread(source.read, wire.CHUNK_BYTES):
            digest.update(content)
            await self._socket.send_bytes(wire.chunk(stream, content))
            self._passed()
        await self._socket.send_text(wire.encoded(wire.StreamEnded(stream, digest.hexdigest())))

    def _assign(self, held: Held, *, whole: bool = True) -> None:
        if self.closed:
            raise ConnectionError("the worker is gone")
        ref = TaskRef(held.key, held.grant.term)
        stuck_s = stuck_after_s(held.queue.policy)
        self._become(sessions.given(self.session, ref, self._clock(), stuck_s, whole=whole))
        self._reserved.discard(held.key)

    def _passed(self) -> None:
        """A piece of content has come or gone: who takes long to send or to read is not stuck."""
        self._become(sessions.alive(self.session, self._clock()))

    def _become(self, session: Session) -> None:
        self.session = session
        if sessions.due(session, self._rules) < self._due:
            self._changed.set()

    async def _do(self, step: sessions.Step) -> None:
        """Carry out what the session says, in order."""
        session, effects = step
        self._become(session)
        for effect in effects:
            if isinstance(effect, sessions.Send):
                async with self._sending:
                    await self._socket.send_text(wire.encoded(effect.message))
            elif isinstance(effect, sessions.Close):
                await self.close(effect.code, effect.reason)
            else:
                await self._tell(effect)

    async def _tell(self, effect: sessions.Effect) -> None:
        """What the dispatcher has to know, or to do before the next message is read."""
        match effect:
            case sessions.Enrol(worker):
                await self._enrol(worker)
            case sessions.Succeeded():
                await self._succeeded(effect)
            case sessions.StreamDone(stream, digest):
                await self._stream_done(stream, digest)
            case sessions.Failure(ref, info, logs):
                await self._desk.failed(self, ref, info, logs)
            case _:
                self._mention(effect)

    def _mention(self, effect: sessions.Effect) -> None:
        match effect:
            case sessions.Free():
                self._desk.free(self)
            case sessions.Occupied():
                self._desk.occupied(self)
            case sessions.Progressed(ref, percent, info):
                self._desk.progressed(self, ref, percent, info)
            case sessions.Lapsed(ref, reason):
                self._desk.lapsed(self, ref, reason)
            case sessions.Stuck(ref, silent_s):
                self._desk.stuck(self, ref, silent_s)
            case sessions.Dropped(what):
                self._desk.dropped(self, what)

    async def _enrol(self, worker: wire.Registered) -> None:
        answer = await self._desk.enrol(self, worker)
        if answer.refused is not None:
            self._become(sessions.refused(self.session, answer.refused))
        else:
            message_bytes = self._rules.message_bytes
            await self._do(
                sessions.enrolled(self.session, answer.session, answer.kept, message_bytes, self._clock())
            )

    async def _succeeded(self, effect: sessions.Succeeded) -> None:
        if effect.stream is not None:
            await self._begin(effect.stream, effect)
            return
        if self._arrived is not None and self._arriving is not None:
            self._arriving.keep()
            await self._desk.succeeded(self, effect.ref, self._arrived)
            return
        content = effect.content or b""
        try:
            value = await self._shelves.put(result_name(effect.ref), content)
        except (BlobError, OSError) as error:
            await self._desk.failed(self, effect.ref, f"its result could not be kept: {error}", None)
        else:
            await self._desk.succeeded(self, effect.ref, value)

    async def _begin(self, stream: int, effect: sessions.Succeeded) -> None:
        try:
            await self._uploads.begin(stream, effect.ref, effect.size)
        except wire.BadMessage as error:
            await self.close(sessions.POLICY, str(error))
        except (BlobError, OSError) as error:
            await self._cannot_keep(error)

    async def _cannot_keep(self, error: Exception) -> None:
        """The worker still has its result, and sends it again over its next connection."""
        log.warning("result.not_kept", worker=self.worker.id, error=str(error))
        await self.close(sessions.TROUBLE, f"the result cannot be kept now: {error}")

    async def _stream_done(self, stream: int, digest: str) -> None:
        try:
            ref, value = await self._uploads.end(stream, digest)
        except wire.BadMessage as error:
            await self.close(sessions.POLICY, str(error))
        except (BlobError, OSError) as error:
            await self._cannot_keep(error)
        else:
            await self._desk.succeeded(self, ref, value)
            await self._do(sessions.finished(self.session, ref, self._clock()))


def stuck_after_s(policy: Policy) -> float | None:
    """After how long without a sign a job counts as stuck; None where that is not wanted."""
    return None if policy.stuck == "ignore" else policy.stuck_s


def _given(held: Held, **content: Any) -> wire.TaskGiven:
    task = held.task
    return wire.TaskGiven(
        held.key,
        held.grant.term,
        task.attempt + 1,
        task.queue,
        task.key,
        task.description,
        task.params,
        **content,
    )


def _fitting(reason: str) -> str:
    """As much of the reason as a close frame can carry."""
    return reason.encode()[:120].decode(errors="ignore")
