"""What a plugin answers, whatever it is written in, and what is made of it. Pure.

    {"status": 1, "stdout": "…", "stderr": "…", "result": …}

A status is a positive integer; everything but the status may be left out. What is no such answer becomes
status 2 with the reason, which also goes to stderr. Of anything else in it, stderr says that it was left out.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from tidemill.tasks.nesting import objection
from tidemill.tasks.status import FAILED, SUCCEEDED

_KNOWN = ("status", "stdout", "stderr", "result")
_LARGEST = 2**31 - 1
_SHOWN = 100


class Verdict(Struct, frozen=True):
    """An answer that was read: `stdout` and `stderr` are to be appended to what was printed."""

    status: int
    stdout: bytes = b""
    stderr: bytes = b""
    result: bytes | None = None
    reason: str | None = None


def clean(text: str) -> str:
    """The text without what has no place in UTF-8."""
    return text.encode(errors="backslashreplace").decode()


def failed(reason: str, detail: str | None = None) -> Verdict:
    """Status 2 for that reason; stderr has the detail, or the reason itself."""
    reason = clean(reason)
    return Verdict(FAILED, stderr=_bytes(detail if detail is not None else f"{reason}\n"), reason=reason)


def read_value(value: object) -> Verdict:
    """What a plugin's answer comes to."""
    if not isinstance(value, Mapping):
        return failed(f"the plugin answered {_shown(value)}, which is no object with a status")
    status, texts = value.get("status"), {}
    for name in ("stdout", "stderr"):
        text = value.get(name)
        if not isinstance(text, str | bytes | None):
            return failed(f"the plugin answered {name} {_shown(text)}, which is no text")
        texts[name] = _bytes(text or b"")
    texts["stderr"] += _bytes(_left_out(value))
    reason = _objection(status)
    wrong_result = objection(value.get("result"))
    if wrong_result is not None:
        return failed(f"the plugin's result cannot be kept: {wrong_result}")
    try:
        result = None if value.get("result") is None else msgspec.json.encode(value["result"])
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        result, reason = None, reason or f"the plugin's result cannot be written as JSON: {error}"
    if reason is not None or not isinstance(status, int):
        wrong = failed(reason or "")
        return Verdict(FAILED, texts["stdout"], texts["stderr"] + wrong.stderr, result, reason)
    return Verdict(status, texts["stdout"], texts["stderr"], result)


def read_response(exit_code: int, response: bytes | None) -> Verdict:
    """What a program's exit code and the file that it answered in come to."""
    if response is None:
        if exit_code == 0:
            return Verdict(SUCCEEDED)
        return failed(f"the program exited with code {exit_code} and answered nothing")
    try:
        value: Any = msgspec.json.decode(response)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return failed(f"the program's response is no JSON: {error}")
    verdict = read_value(value)
    if verdict.status == SUCCEEDED and exit_code != 0:
        reason = f"the program answered status 1 but exited with code {exit_code}"
        stderr = verdict.stderr + failed(reason).stderr
        return Verdict(FAILED, verdict.stdout, stderr, verdict.result, reason)
    return verdict


def _left_out(value: Mapping[Any, Any]) -> str:
    """A line about what nobody asked for, such as a name that is mistyped; nothing when all is known."""
    unknown = [name for name in value if name not in _KNOWN]
    if not unknown:
        return ""
    return (
        f"warning: the plugin answered {_shown(unknown)}, which was left out; known are {', '.join(_KNOWN)}\n"
    )


def _objection(status: object) -> str | None:
    if status is None:
        return "the plugin answered no status"
    if not isinstance(status, int) or isinstance(status, bool):
        return f"the plugin answered status {_shown(status)}, which is no integer"
    if not 0 < status <= _LARGEST:
        return f"the plugin answered status {_shown(status)}, which is not positive or too large"
    return None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode(errors="backslashreplace")
