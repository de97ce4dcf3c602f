"""The kinds of values that settings take, and the one way to read each.

A value comes as text from a flag or a variable, and as JSON or TOML from a file; both mean the same. A value
that a kind can make no sense of raises `ValueError`: what is allowed instead, the setting itself says.
"""

import json
import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

QUEUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")

_STORES = ("memory", "sqlite", "postgresql", "postgres", "mongodb", "mongodb+srv")
_PLUGIN = r"[A-Za-z_][A-Za-z0-9_.:-]{0,199}"
_PACKAGE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


class Balance(BaseModel):
    """What the balancing of queues does."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = False
    log: bool = False
    verbose: bool = False
    pretend: bool = False


def _no_truth(value: Any) -> Any:
    """To Python, true is the number 1; to whoever wrote it into a file it is not."""
    if isinstance(value, bool):
        raise ValueError  # noqa: TRY004 - pydantic takes this one for a refusal
    return value


def _number_or_none(value: Any) -> Any:
    return None if value == "none" else _no_truth(value)


def _store_url(value: Any) -> Any:
    # Not `urlsplit`, which older Pythons refuse several hosts in, if one of them has brackets.
    if isinstance(value, str) and value.partition(":")[0].lower() not in _STORES:
        raise ValueError
    return value


def _blobs_url(value: Any) -> Any:
    if (
        isinstance(value, str)
        and ("://" in value or not value)
        and not value.startswith(("file:///", "s3://"))
    ):
        raise ValueError
    return value


def _flag_word(value: Any) -> Any:
    """`true` and `false`, as a word or as JSON's own."""
    return str(value).lower() if isinstance(value, bool | str) else value


def _table(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def _commands(value: Any) -> Any:
    entries = value
    if isinstance(value, str):
        is_json = value.lstrip().startswith(("{", "["))
        entries = (
            json.loads(value) if is_json else [name for entry in value.split(",") if (name := entry.strip())]
        )
    if isinstance(entries, list | tuple) and all(isinstance(entry, str) for entry in entries):
        entries = dict.fromkeys(entries)
    return entries


def _command(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    words = shlex.split(value) if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or (isinstance(value, str) and not words):
        raise ValueError
    if not all(isinstance(word, str) and word for word in words):
        raise ValueError
    return tuple(words)


def _packages(value: Any) -> Any:
    packages = _table(value)
    if not isinstance(packages, Mapping):
        raise ValueError  # noqa: TRY004 - pydantic takes this one for a refusal
    return {
        name: {} if options is None else options for name, options in packages.items() if _is(_PACKAGE, name)
    }


def _is(pattern: re.Pattern[str], name: Any) -> bool:
    """True, or `ValueError`: no name is passed over."""
    if not isinstance(name, str) or not pattern.fullmatch(name):
        raise ValueError
    return True


def listed(pattern: re.Pattern[str], *, lower: bool = False) -> BeforeValidator:
    """A list, or text with commas; every entry of that form, and with `lower` in lower case."""

    def check(value: Any) -> Any:
        entries = value.split(",") if isinstance(value, str) else value
        if not isinstance(entries, list | tuple):
            return value
        if not all(isinstance(entry, str) for entry in entries):
            raise ValueError
        cleaned = [entry.strip().lower().rstrip("/") if lower else entry.strip() for entry in entries]
        if not all(pattern.fullmatch(entry) for entry in cleaned if entry):
            raise ValueError
        return tuple(entry for entry in cleaned if entry)

    return BeforeValidator(check)


NUMBER = BeforeValidator(_no_truth)
NUMBER_OR_NONE = BeforeValidator(_number_or_none)
STORE = BeforeValidator(_store_url)
BLOBS = BeforeValidator(_blobs_url)
FLAG_WORD = BeforeValidator(_flag_word)
TABLE = BeforeValidator(_table)
COMMANDS = BeforeValidator(_commands)
PACKAGES = BeforeValidator(_packages)

Commands: TypeAlias = dict[
    Annotated[str, Field(pattern=f"^{_PLUGIN}$")], Annotated[tuple[str, ...], BeforeValidator(_command)]
]
"""The command of each plugin; an empty one belongs to a plugin that is found by its name."""
