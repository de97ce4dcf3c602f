"""Between a task's document and its runner: what a job is given, and where what comes of it is kept."""

import asyncio
from typing import Any

import msgspec

from tidemill.base.clock import boot_clock
from tidemill.base.errors import TidemillError
from tidemill.base.log import get_logger
from tidemill.store.blobs import INLINE_LIMIT, BlobError
from tidemill.tasks import task as moves
from tidemill.tasks.blobs import Shelves, blob_name, inline_content, inline_value
from tidemill.tasks.held import Held
from tidemill.tasks.queue import Gfs
from tidemill.tasks.runner.job import Crashed, Ending, Finished, Job, Output, Stopped, Untouched, limits_of
from tidemill.tasks.status import FAILED

log = get_logger("tidemill.keeping")

MOST_INLINE = 400_000
"""How much of an output stays in the document where a queue wants it there, whatever its size: bytes that are
no text take four characters each."""


AWAY_S = 60.0
AWAY_RETRY_S = 0.5
"""For how long, and how often, outputs are tried to be put away."""


class Keeping:
    """Makes jobs of tasks, and moves of the endings of jobs.

    `context` is what every job can ask for besides: JSON. `gfs` says what becomes of outputs where a queue
    does not say it.
    """

    def __init__(self, shelves: Shelves, context: dict[str, Any], gfs: Gfs = "auto") -> None:
        self._shelves = shelves
        self._context = context
        self._gfs = gfs

    async def job_for(self, held: Held) -> Job:
        """What a runner is given. Raises a `BlobError` when its payload cannot be had."""
        task, queue = held.task, held.queue
        payload: bytes | None = None
        if task.payload is not None:
            payload = inline_content(task.payload)
            if payload is None:
                payload = await self._shelves.read(task.payload)
        return Job(
            id=held.key,
            fence=held.grant.term,
            attempt=task.attempt + 1,
            queue=task.queue,
            kind="function" if queue.kind == "function" else "plugin",
            plugin=queue.plugin,
            params=task.params,
            payload=payload,
            context=self._context,
            limits=limits_of(queue.policy),
        )

    def unreadable(self, error: TidemillError) -> moves.Event:
        """The end of a task whose payload cannot be had."""
        return moves.Finished(FAILED, reason=f"its payload cannot be read: {error}", stderr=str(error))

    def at_once(self, held: Held, ending: Ending) -> moves.Event | None:
        """The move that an ending asks for; None when something of it must be put away first."""
        small = INLINE_LIMIT if self._gfs_of(held) == "auto" else 0
        if any(part.size > small for part in outputs_of(ending)):
            return None
        result = None
        if isinstance(ending, Finished) and ending.result is not None:
            if not _stays(held, ending.result):
                return None
            result = _result(held, ending.result)
        return _move(ending, result, *(_text(part.content or b"") for part in outputs_of(ending)))

    async def put_away(self, held: Held, ending: Ending) -> moves.Event:
        """The move that an ending asks for, after what is large was put where it can be found.

        While that cannot be reached it is tried again, for as long as `AWAY_S`. What cannot be put away even
        then is told in the task's reason: its status stands all the same, unless its result is lost.
        """
        give_up = boot_clock() + AWAY_S
        try:
            while True:
                try:
                    return await self._put_away(held, ending)
                except (BlobError, OSError) as error:
                    log.warning("task.output_not_put_away", task=held.key, error=str(error))
                    if boot_clock() > give_up or held.lost:
                        return _without(ending, f"its outputs could not be put away: {error}")
                    await asyncio.sleep(AWAY_RETRY_S)
        finally:
            discard(ending)

    async def _put_away(self, held: Held, ending: Ending) -> moves.Event:
        prefix = f"tasks/{held.key}/{held.grant.term}"
        kept: list[Any] = []
        result: Any = None
        for name, part in zip(("stdout", "stderr"), outputs_of(ending), strict=True):
            kept.append(await self._output(held, f"{prefix}/{name}", part))
        if isinstance(ending, Finished) and ending.result is not None:
            result = await self._large_result(held, f"{prefix}/result", ending.result)
        return _move(ending, result, *kept)

    async def _output(self, held: Held, name: str, part: Output) -> Any:
        if part.size == 0:
            return None
        gfs = self._gfs_of(held)
        if gfs == "false":
            content = await asyncio.to_thread(part.read)
            cut = len(content) - MOST_INLINE
            text = _text(content[:MOST_INLINE])
            return text if cut <= 0 else f"{text}\n(and {cut:,} bytes more, which were left out)"
        if part.size <= INLINE_LIMIT and gfs == "auto":
            return _text(await asyncio.to_thread(part.read))
        if part.path is None:
            return await self._shelves.put(name, part.content or b"", inline=False)
        with part.path.open("rb") as file:
            return await self._shelves.put(name, file, inline=False)

    def _gfs_of(self, held: Held) -> Gfs:
        return self._gfs if held.queue.gfs == "auto" else held.queue.gfs

    async def _large_result(self, held: Held, name: str, result: bytes) -> Any:
        if _stays(held, result):
            return _result(held, result)
        return await self._shelves.put(name, result, inline=False)


def _without(ending: Ending, reason: str) -> moves.Event:
    """What an ending comes to whose outputs are lost."""
    if isinstance(ending, Finished) and ending.result is None:
        return moves.Finished(ending.status, exit_code=ending.exit_code, reason=reason)
    return moves.Crashed(reason)


def outputs_of(ending: Ending) -> tuple[Output, Output]:
    if isinstance(ending, Untouched):
        return Output(), Output()
    return ending.stdout, ending.stderr


def discard(ending: Ending) -> None:
    """Delete the files of an ending that nobody wants."""
    for part in outputs_of(ending):
        part.discard()


def _stays(held: Held, result: bytes) -> bool:
    """Whether a result is kept in the document: it is small, and no JSON that a reader takes for a blob's."""
    if len(result) > INLINE_LIMIT:
        return False
    may_mislead = held.queue.kind != "function" and b'"digest"' in result
    return not may_mislead or blob_name(msgspec.json.decode(result)) is None


def _result(held: Held, result: bytes) -> Any:
    """A function's outcome is bytes; a plugin's result is JSON, and kept as that."""
    return inline_value(result) if held.queue.kind == "function" else msgspec.json.decode(result)


def _move(ending: Ending, result: Any, stdout: Any, stderr: Any) -> moves.Event:
    match ending:
        case Finished():
            return moves.Finished(ending.status, result, stdout, stderr, ending.exit_code, ending.reason)
        case Crashed():
            stderr = _with_reason(stderr, ending.reason)
            return moves.Crashed(ending.reason, False, stdout, stderr, ending.exit_code)
        case Stopped(cause="cancel"):
            return moves.Stopped(ending.reason, True, stdout, stderr)
        case Stopped():
            return moves.Stopped(ending.reason, False, stdout, _with_reason(stderr, ending.reason))
        case Untouched():
            return moves.GivenBack(ending.reason)


def _with_reason(stderr: Any, reason: str) -> Any:
    """What it wrote and then why it was ended, for those who look at outputs; a blob stays as it is."""
    if not isinstance(stderr, str | None):
        return stderr
    between = "\n" if stderr and not stderr.endswith("\n") else ""
    return f"{stderr or ''}{between}{reason}\n"


def _text(content: bytes) -> str | None:
    return content.decode(errors="backslashreplace") if content else None
