"""Where a worker connects, and who it says that it is."""

import re
import socket
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from tidemill.worker.errors import BadAddress

_SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
_EXAMPLE = "https://tidemill.example.org"
_BARE = re.compile(r"([\w.-]+|\[[0-9a-fA-F:]+\])(:\d+)?(/\S*)?", re.ASCII)
"""An address that lacks nothing but its scheme."""

_MACHINE_ID = Path("/etc/machine-id")
_LONGEST = 200


def addresses(urls: str | Sequence[str], queue: str | None) -> list[str]:
    """The WebSocket addresses of nodes, as people write a node's address. Raises `BadAddress`."""
    listed = [urls] if isinstance(urls, str) else list(urls)
    if not listed:
        raise BadAddress("a worker needs the address of a node")
    return [_address(url, queue) for url in listed]


def _address(url: str, queue: str | None) -> str:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in _SCHEMES and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        meant = f"did you mean {f'http://{url}'!r}?" if _BARE.fullmatch(url) else f"such as {_EXAMPLE}"
        raise BadAddress(f"{url!r} is no address of a node; {meant}")
    path = parts.path.rstrip("/") + "/api/worker"
    if queue is not None:
        path += "/" + quote(queue, safe="")
    return urlunsplit((_SCHEMES[parts.scheme], parts.netloc, path, parts.query, ""))


def machine_name() -> str:
    """The name of this machine, for people."""
    return socket.gethostname()[:_LONGEST]


def machine_identity(queue: str | None) -> str:
    """What tells this machine's worker of that queue from all others, also after both were restarted."""
    try:
        machine = _MACHINE_ID.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        machine = ""
    return "-".join(part for part in (machine or machine_name(), queue) if part)[:_LONGEST]
