"""A function call as bytes: made by whoever submits it, run by a runner, its outcome read by whoever waits.

The function is pickled apart from its arguments, so that a runner which calls the same one again and again
unpickles it once. Pickles can do anything when they are read: only those who may send code may send them, and
outcomes are read only by the one who sent the call.
"""

import io
import pickle
import sys
import traceback
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import cloudpickle
import msgspec
from msgspec import Struct

from tidemill.tasks.status import FAILED, SUCCEEDED

_FUNCTIONS = 256
_PLAIN_BYTES = 4096
_loaded: OrderedDict[bytes, Callable[..., Any]] = OrderedDict()


class Origin(Struct, frozen=True, array_like=True):
    """Where a call came from: the address of the submitter's store, and the name of its shared context.

    A node gives no credentials to what it runs, so that a task which wants the store has it from here.
    """

    url: str
    context: str


class Call(Struct, frozen=True, array_like=True):
    """The pickles of a function and of its arguments, and where they came from."""

    function: bytes
    arguments: bytes
    origin: Origin | None = None


class Outcome(Struct, frozen=True, array_like=True):
    """The pickle of what a call returned, or of what it raised with the traceback as text.

    What cannot be pickled is told in words, in `text`.
    """

    returned: bytes | None = None
    raised: bytes | None = None
    text: str = ""


_call = msgspec.msgpack.Decoder(Call)
_outcome = msgspec.msgpack.Decoder(Outcome)
_encode = msgspec.msgpack.Encoder().encode


class RemoteTraceback(Exception):
    """Where a function raised, on the node that ran it. The cause of what is raised here."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n{self.text}"


class TaskFailed(Exception):
    """A task failed, and what it raised cannot be raised here; the message tells it."""


class TaskTerminated(TaskFailed):
    """A task took more time, memory or room for its output than its queue allows, and was ended."""


def pickle_function(function: Callable[..., Any]) -> bytes:
    """Raises what cloudpickle raises for what cannot be pickled."""
    pickled: bytes = cloudpickle.dumps(function)
    return pickled


def pickle_call(
    function: bytes, args: tuple[Any, ...], kwargs: Mapping[str, Any], origin: Origin | None = None
) -> bytes:
    """The call of a pickled function."""
    return _encode(Call(function, _pickled((args, dict(kwargs))), origin))


def origin_of(payload: bytes) -> Origin | None:
    """Where a call came from. Nothing is unpickled."""
    return _call.decode(payload).origin


def run(payload: bytes) -> tuple[int, bytes]:
    """Do the call; a status and the outcome. Never raises what the function raises, `SystemExit` included.

    The traceback goes to standard error too, for those who see the task and not the outcome.
    """
    try:
        call = _call.decode(payload)
        args, kwargs = pickle.loads(call.arguments)
        return SUCCEEDED, returned(_function(call.function)(*args, **kwargs))
    except BaseException as error:
        outcome = _raised(error)
        with suppress(Exception):  # the function may have closed it, or put another in its place
            sys.stderr.write(outcome.text)
        return FAILED, _encode(outcome)


def returned(value: Any) -> bytes:
    """The outcome of a call that returned this."""
    return _encode(Outcome(_pickled(value)))


def read_outcome(content: bytes) -> tuple[Any, Exception | None]:
    """What the call returned, or what it raised, as far as that may be raised here."""
    outcome = _outcome.decode(content)
    if outcome.returned is not None:
        return pickle.loads(outcome.returned), None
    error: Exception = TaskFailed(outcome.text)
    if outcome.raised is not None:
        try:
            loaded = pickle.loads(outcome.raised)
        except Exception as unreadable:
            error.add_note(f"what it raised cannot be read here: {unreadable}")
        else:
            error = raisable(loaded) if isinstance(loaded, BaseException) else error
    error.__cause__ = RemoteTraceback(outcome.text)
    return None, error


class _PlainUnpickler(pickle.Unpickler):
    """Reads numbers, texts and what holds them, and finds nothing that could be called."""

    def find_class(self, module: str, name: str, /) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is not plain")


def read_plain(content: bytes) -> Any:
    """What the call returned, if that is small and reading it runs nobody's code; else raises ValueError."""
    outcome = _outcome.decode(content) if len(content) <= _PLAIN_BYTES else Outcome()
    if outcome.returned is None:
        raise ValueError("it is large, or it was raised")
    try:
        return _PlainUnpickler(io.BytesIO(outcome.returned)).load()
    except Exception as error:
        raise ValueError(f"it is not plain: {error}") from error


def raisable(error: BaseException) -> Exception:
    """The error, or one in its place if it would end whoever raises it: that was for its runner."""
    if isinstance(error, Exception):
        return error
    if isinstance(error, SystemExit):
        return TaskFailed(f"the function called sys.exit({'' if error.code is None else repr(error.code)})")
    return TaskFailed(f"the function raised {traceback.format_exception_only(error)[-1].strip()}")


def _function(pickled: bytes) -> Callable[..., Any]:
    """The function, from memory when it was called before: its globals and caches live on."""
    found = _loaded.get(pickled)
    if found is None:
        found = _loaded[pickled] = pickle.loads(pickled)
        if len(_loaded) > _FUNCTIONS:
            _loaded.popitem(last=False)
    return found


def _raised(error: BaseException) -> Outcome:
    text = "".join(traceback.format_exception(error))
    try:
        return Outcome(raised=_pickled(error), text=text)
    except Exception:
        return Outcome(text=text)


def _pickled(value: Any) -> bytes:
    """Plainly if that works, as it is far quicker; with everything that cloudpickle knows if it does not."""
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception:
        pickled: bytes = cloudpickle.dumps(value)
        return pickled
