"""What a Python function does, as a hash: the same in every process, for the same code.

A function counts with its bytecode, constants, names, defaults and what it encloses, and with the functions,
classes and values that it refers to; where its text stands does not count, nor what it says about itself. Of
other packages than the function's own, the names count alone.
"""

import hashlib
import types
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from pyspark import cloudpickle

_cloudpickle: Any = cloudpickle
PLAIN = (type(None), type(...), bool, int, float, complex, str, bytes)
QUIET = {
    "__module__",
    "__qualname__",
    "__doc__",
    "__dict__",
    "__weakref__",
    "__slotnames__",
    "_abc_impl",
    "__firstlineno__",
    "__static_attributes__",
}
"""What a class has that does nothing."""

Parts = tuple[Any, ...]
KINDS: tuple[tuple[type, Callable[[Any], Parts]], ...] = (
    (tuple, tuple),
    (list, tuple),
    (dict, lambda value: tuple(value.items())),
    (partial, lambda value: (value.func, value.args, value.keywords)),
    (types.MethodType, lambda value: (value.__func__, value.__self__)),
    (staticmethod, lambda value: (value.__func__,)),
    (classmethod, lambda value: (value.__func__,)),
    (property, lambda value: (value.fget, value.fset, value.fdel)),
)
"""What is made of parts, and which."""


def code_hash(function: Any, *further: str) -> str:
    """The same for functions that do the same, as far as their code tells, under the same further words."""
    text = _Description(function).of((function, *further))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class _Description:
    """Describes what a function is made of. What comes again, be it within itself, is told by its number."""

    def __init__(self, function: Any) -> None:
        named = function if hasattr(function, "__qualname__") else type(function)
        self._home = _package(named)
        self._seen: dict[int, tuple[int, Any]] = {}  # with the object, so that its address stays its own

    def of(self, value: Any) -> str:
        if isinstance(value, PLAIN):
            return repr(value)
        if isinstance(value, types.CodeType):
            return self._several("code", _parts_of(value))
        if isinstance(value, set | frozenset):
            return self._several("set", tuple(sorted(map(self.of, value))))
        if id(value) in self._seen:
            return f"again {self._seen[id(value)][0]}"
        self._seen[id(value)] = len(self._seen), value
        kind = next((one for one in KINDS if isinstance(value, one[0])), None)
        if kind is not None:
            return self._several(kind[0].__name__, kind[1](value))
        return self._named(value) if _has_name(value) else self._object(value)

    def _named(self, value: Any) -> str:
        """Modules, and what is defined in one."""
        name = _name(value)
        if isinstance(value, types.ModuleType) or not self._is_near(value):
            return name
        if isinstance(value, types.FunctionType):
            return self._several(name, _parts_of_function(value))
        if isinstance(value, type):
            members = sorted(set(vars(value)) - QUIET)
            return self._several(name, (value.__bases__, [(one, vars(value)[one]) for one in members]))
        return self._several(name, (getattr(value, "__wrapped__", None),))  # as of functools.cache

    def _object(self, value: Any) -> str:
        state = getattr(value, "__dict__", None)
        held = bytes(_cloudpickle.dumps(value)) if state is None else state
        return self._several("object", (type(value), held))

    def _is_near(self, value: Any) -> bool:
        return _is_own(value) or _package(value) == self._home

    def _several(self, kind: str, parts: Parts) -> str:
        return f"{kind}({', '.join(map(self.of, parts))})"


def _parts_of(code: types.CodeType) -> Parts:
    """All but in which file it stands, and where."""
    return (
        code.co_code,
        code.co_consts,
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_cellvars,
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_flags,
        getattr(code, "co_exceptiontable", b""),
    )


def _parts_of_function(function: types.FunctionType) -> Parts:
    enclosed = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    named = sorted(set(_names_in(function.__code__)) & set(function.__globals__))
    referred = [(name, function.__globals__[name]) for name in named]
    return _undocumented(function), function.__defaults__, function.__kwdefaults__, enclosed, referred


def _undocumented(function: types.FunctionType) -> types.CodeType:
    """Its code without what it says about itself, which is the first of its constants."""
    code = function.__code__
    if function.__doc__ is None or code.co_consts[:1] != (function.__doc__,):
        return code
    return code.replace(co_consts=(None, *code.co_consts[1:]))


def _names_in(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _has_name(value: Any) -> bool:
    return isinstance(value, types.ModuleType) or hasattr(value, "__qualname__")


def _name(value: Any) -> str:
    """As others can import it; of what nobody can, nothing is said."""
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    return "" if _is_own(value) else f"{getattr(value, '__module__', '')}.{value.__qualname__}"


def _is_own(value: Any) -> bool:
    """Whether it was written in a script, a notebook or a function, from where nobody can import it."""
    return getattr(value, "__module__", None) == "__main__" or "<" in value.__qualname__


def _package(value: Any) -> str:
    return str(getattr(value, "__module__", None)).partition(".")[0]
