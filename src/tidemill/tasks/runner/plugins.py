"""Which plugins there are, where each is found, and how one in Python is run.

A plugin is one of these:
- the name of an entry point in the group `tidemill.plugins`
- a dotted name that settings allow, `package.module:Object` or `package.module.Object`
- a name that settings map to a command; with `task_runner`, every allowed name that nothing else answers to

In Python it is a class, made with the task, whose `run()` answers; or a function that takes the task and
answers, or returns None when all went well.
"""

import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any, TypeAlias

from msgspec import Struct

from tidemill.tasks.runner.answer import Verdict, read_value
from tidemill.tasks.runner.job import Job
from tidemill.tasks.status import SUCCEEDED

GROUP = "tidemill.plugins"
_DOTTED = re.compile(r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*)[.:](?P<object>[^\W\d]\w*)")


class PythonPlugin(Struct, frozen=True):
    """Runs in a warm runner, from `package.module:object`."""

    target: str


class ProgramPlugin(Struct, frozen=True):
    """Runs as a process of its own."""

    command: tuple[str, ...]


class NoPlugin(Struct, frozen=True):
    """Cannot be run here, for that reason."""

    reason: str


Found: TypeAlias = PythonPlugin | ProgramPlugin | NoPlugin


class Plugins:
    """The plugins that this node may run: those installed as entry points, and those that settings allow."""

    def __init__(
        self,
        allowed: Sequence[str] = (),
        programs: Mapping[str, str | Sequence[str]] | None = None,
        task_runner: str | None = None,
    ) -> None:
        self._allowed = tuple(allowed)
        self._programs = {name: _command(command) for name, command in (programs or {}).items()}
        self._task_runner = task_runner
        self._installed = {point.name: point.value for point in entry_points(group=GROUP)}
        self._found: dict[str, Found] = {}

    def names(self) -> list[str]:
        """All that can be run here, by name."""
        return [name for name in self._every() if not isinstance(self.find(name), NoPlugin)]

    def broken(self) -> dict[str, str]:
        """All that should be run here and cannot, with the reason."""
        found = {name: self.find(name) for name in self._every()}
        return {name: plugin.reason for name, plugin in found.items() if isinstance(plugin, NoPlugin)}

    def refuse(self, name: str, reason: str) -> None:
        """From now on that plugin cannot be run here."""
        self._found[name] = NoPlugin(f"plugin {name!r}: {reason}")

    def find(self, name: str | None) -> Found:
        """Where the plugin of that name is found. None of its code is loaded.

        What was found once is remembered; what was not may be installed later.
        """
        found = self._found.get(name or "") or self._look_up(name)
        if name is not None and not isinstance(found, NoPlugin):
            self._found[name] = found
        return found

    def _every(self) -> list[str]:
        return sorted({*self._allowed, *self._programs, *self._installed})

    def _look_up(self, name: str | None) -> Found:
        if name in self._programs:
            return ProgramPlugin(self._programs[name])
        if name in self._installed:
            return _python(name, self._installed[name])
        if name is None or name not in self._allowed:
            return NoPlugin(f"plugin {name!r} is not one that this node may run")
        if self._task_runner is not None:
            return ProgramPlugin((self._task_runner, name))
        return _python(name, name)


def _command(command: str | Sequence[str]) -> tuple[str, ...]:
    return (os.fspath(command),) if isinstance(command, str | os.PathLike) else tuple(command)


def _python(name: str, dotted: str) -> Found:
    parts = _DOTTED.fullmatch(dotted)
    if parts is None:
        return NoPlugin(f"plugin {name!r} is no name of something in Python")
    module, _, _ = parts["module"].partition(".")
    try:
        missing = find_spec(module) is None
    except ValueError:  # loaded in a way that left no trace of where from
        missing = False
    if missing:
        return NoPlugin(f"plugin {name!r}: there is no package {module!r} on this node")
    return PythonPlugin(f"{parts['module']}:{parts['object']}")


class TaskView:
    """What a plugin sees of its task. It cannot be changed."""

    __slots__ = ("__job",)

    def __init__(self, job: Job) -> None:
        self.__job = job

    @property
    def id(self) -> str:
        return self.__job.id

    @property
    def attempt(self) -> int:
        return self.__job.attempt

    @property
    def fence(self) -> int:
        return self.__job.fence

    @property
    def queue(self) -> str:
        return self.__job.queue

    @property
    def params(self) -> Any:
        return self.__job.params

    def __repr__(self) -> str:
        return f"<task {self.id} of {self.queue}, attempt {self.attempt}>"


@cache
def load(target: str) -> Callable[..., Any]:
    """The plugin at `package.module:object`. Raises whatever its import does."""
    module, _, name = target.partition(":")
    plugin = getattr(import_module(module), name)
    if not callable(plugin):
        raise TypeError(f"{target} is neither a class nor a function")
    called: Callable[..., Any] = plugin
    return called


def load_only(target: bytes) -> tuple[int, bytes]:
    """Load the plugin in this process, as the payload of a job says. Raises whatever its import does."""
    load(target.decode())
    return SUCCEEDED, b""


def run_plugin(target: str, job: Job) -> Verdict:
    """Run the plugin in this process. Raises what it raises."""
    plugin = load(target)
    made = plugin(TaskView(job))
    if inspect.isclass(plugin):
        return read_value(made.run())
    return Verdict(SUCCEEDED) if made is None else read_value(made)
