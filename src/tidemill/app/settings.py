"""Settings: what they are, what is allowed, and where each effective value came from.

Layers, first wins:

    flags  >  environment TIDEMILL_*  >  tidemill.toml or tidemill.json  >  the store  >  default

A layer is a mapping from name to a value with its origin; `resolve` merges layers and checks the
result. `layers` makes the first three; nothing else in Tidemill reads the environment for settings.
"""

import difflib
import os
import re
import socket
from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from tidemill.app.kinds import (
    BLOBS,
    COMMANDS,
    FLAG_WORD,
    NUMBER,
    NUMBER_OR_NONE,
    PACKAGES,
    QUEUE,
    STORE,
    TABLE,
    Balance,
    Commands,
    listed,
)
from tidemill.app.mask import masked, masked_text
from tidemill.base.errors import TidemillError
from tidemill.store.blobs.address import ADDRESSES as BLOB_ADDRESSES
from tidemill.store.open import ADDRESSES

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
Gfs: TypeAlias = Literal["auto", "true", "false"]

DISBATCH_KEYS = ("mongohost", "database", "attributes", "auth", "log4perl")
"""What a file may hold besides settings; `disbatch` translates it."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_HOST = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?|[0-9a-f:.]+")
_ORIGIN = re.compile(r"https?://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:\d{1,5})?")


class SettingError(TidemillError):
    """A setting has a value that is not allowed. Says which, from where, and what is allowed."""

    code = "setting.value"

    def __init__(self, name: str, value: object, origin: str, allowed: str) -> None:
        super().__init__(
            f"setting {name}: {masked(value)!r} (from {origin}) is not allowed; allowed: {allowed}"
        )
        self.name = name


class UnknownSetting(SettingError):
    """There is no setting of that name. Suggests the nearest."""

    code = "setting.unknown"

    def __init__(self, name: str, origin: str) -> None:
        near = difflib.get_close_matches(name, [*Settings.model_fields, *DISBATCH_KEYS], n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(Settings.model_fields)}"
        if name in DISBATCH_KEYS:
            hint = "only a file may have it"
        TidemillError.__init__(self, f"there is no setting {name!r} (from {origin}); {hint}")
        self.name = name


class NotClusterWide(SettingError):
    """The setting is each node's own and cannot stand in the store. Gives the reason."""

    code = "setting.not_cluster_wide"

    def __init__(self, name: str) -> None:
        TidemillError.__init__(
            self, f"setting {name} is each node's own and not kept in the store: {about(name).own}"
        )
        self.name = name


class HoldsSecret(SettingError):
    """The value holds a secret, and everybody who may view can read the settings in the store."""

    code = "setting.secret"

    def __init__(self, name: str, value: object) -> None:
        TidemillError.__init__(
            self,
            f"setting {name}: {masked(value)!r} holds a secret, which has no place in the store; "
            "give it to each node",
        )
        self.name = name


class NoSuchStore(SettingError):
    """The store is of a kind that this release does not have. Says which it has."""

    code = "setting.no_store"

    def __init__(self, url: str, origin: str) -> None:
        TidemillError.__init__(
            self,
            f"setting store: {masked_text(url)!r} (from {origin}) is in MongoDB, "
            f"and this release has no MongoDB store; it has {ADDRESSES}",
        )
        self.name = "store"


class ConfigFileError(SettingError):
    """The file of settings cannot be read."""

    code = "setting.file"

    def __init__(self, message: str) -> None:
        TidemillError.__init__(self, message)


@dataclass(frozen=True, slots=True)
class About:
    """What a setting is for and what it takes, in words.

    `own` says why each node must have its own; one without may be cluster-wide.
    """

    text: str
    allowed: str
    own: str | None = None


def _host_name() -> str:
    """This machine's name; what a node cannot be called by becomes a dash."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()).lstrip("._-")[:63] or "node"


def _default_store(given: dict[str, Any]) -> str:
    return f"sqlite:///{given.get('data', '')}/tidemill.db"


def _default_blobs(given: dict[str, Any]) -> str:
    return f"{Path(given.get('data', '')).absolute().as_uri()}/blobs"


_OWN_PLACE = "nodes differ in it, and it must be known before the store can be read"
_OWN_FILE = "it names a file on the node's own machine"
_OWN_CODE = "it decides which code the node's own machine runs"
_OWN_SHARE = "it is the node's own share of the work"


class Settings(BaseModel):
    """Every setting of a node, checked. Build it with `resolve`, or by keyword in tests."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    _origins: dict[str, str] = PrivateAttr(default_factory=dict)
    _unused: dict[str, str] = PrivateAttr(default_factory=dict)

    data: Annotated[Path, About("Folder for local files", "a folder", _OWN_PLACE)] = Path(".tidemill")
    store: Annotated[
        str,
        STORE,
        About("Address of the store that the cluster shares", ADDRESSES, _OWN_PLACE),
    ] = Field(default_factory=_default_store)
    blobs: Annotated[
        str,
        BLOBS,
        About(
            "Address of the blobs that the cluster shares, for what is too large for the store",
            BLOB_ADDRESSES,
        ),
    ] = Field(default_factory=_default_blobs)
    host: Annotated[
        str,
        Field(pattern=r"^[\w.:-]+$"),
        About(
            "Address to listen on",
            "an address or name of this machine; other than loopback needs a token",
            _OWN_PLACE,
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int,
        NUMBER,
        Field(ge=0, le=65535),
        About("Port to listen on", "a whole number from 0 to 65535; 0 takes a free one", _OWN_PLACE),
    ] = 7433
    name: Annotated[
        str,
        Field(pattern=f"^{_NAME.pattern}$"),
        About("Name of the node", "letters, digits, '.', '_' and '-', at most 63", "it tells nodes apart"),
    ] = Field(default_factory=_host_name)
    slots: Annotated[
        int,
        NUMBER,
        Field(ge=0, le=10_000),
        About("How much work the node takes at a time", "a whole number from 0 to 10000"),
    ] = Field(default_factory=lambda: os.cpu_count() or 1)
    ttl_s: Annotated[
        float,
        NUMBER,
        Field(ge=0.5, le=300),
        About("How long a lease outlives its last renewal", "seconds, from 0.5 to 300"),
    ] = 5.0
    path_prefix: Annotated[
        str,
        Field(pattern=r"^(/[\w.~-]+)*$"),
        About(
            "Path under which a proxy serves the node",
            "a path such as /tidemill, without a slash at its end; empty for none",
        ),
    ] = ""
    worker_grace_s: Annotated[
        float,
        NUMBER,
        Field(gt=0, le=60),
        About("How long a remote worker may take to register", "seconds, more than 0 and at most 60"),
    ] = 0.5
    worker_message_mb: Annotated[
        int,
        NUMBER,
        Field(ge=1, le=1024),
        About("The largest message that is taken from a remote worker", "MiB, from 1 to 1024"),
    ] = 64
    tls_cert: Annotated[
        Path | None, About("TLS certificate chain", "a PEM file, together with tls_key", _OWN_FILE)
    ] = None
    tls_key: Annotated[
        Path | None, About("TLS private key", "a PEM file, together with tls_cert", _OWN_FILE)
    ] = None
    log_level: Annotated[LogLevel, About("Least severe messages to log", "debug, info, warning or error")] = (
        "info"
    )
    audit_keep_days: Annotated[
        Annotated[int, Field(ge=1, le=36_500)] | None,
        NUMBER_OR_NONE,
        About("For how many days the audit log is kept", "a whole number from 1, or none for ever"),
    ] = None
    allowed_hosts: Annotated[
        tuple[str, ...],
        listed(_HOST, lower=True),
        About(
            "Names besides loopback under which the node may be called",
            "host names without port, with commas between; no wildcards",
        ),
    ] = ()
    allowed_origins: Annotated[
        tuple[str, ...],
        listed(_ORIGIN, lower=True),
        About(
            "Web pages of other origins that may call the node",
            "origins such as https://example.org, with commas between",
        ),
    ] = ()
    maxthreads: Annotated[
        Annotated[int, Field(ge=0)] | None,
        NUMBER_OR_NONE,
        About("How many tasks the node runs at a time", "a whole number, or none for no bound", _OWN_SHARE),
    ] = None
    activequeues: Annotated[
        tuple[str, ...],
        listed(QUEUE),
        About(
            "The only queues that the node looks after", "names of queues, with commas between", _OWN_SHARE
        ),
    ] = ()
    ignorequeues: Annotated[
        tuple[str, ...],
        listed(QUEUE),
        About(
            "Queues that the node does not look after; unused with activequeues",
            "names of queues, with commas between",
            _OWN_SHARE,
        ),
    ] = ()
    plugins: Annotated[
        Commands,
        COMMANDS,
        About(
            "Plugins that tasks may use on the node",
            "names with commas between, or a table of names with the command of each: text or a list, "
            "[] for a plugin that is found by its name",
            _OWN_CODE,
        ),
    ] = Field(default_factory=dict)
    task_runner: Annotated[
        Path | None,
        About(
            "Program that runs the plugins that have no command", "a program on the node's machine", _OWN_CODE
        ),
    ] = None
    runner_tasks: Annotated[
        int,
        NUMBER,
        Field(ge=1, le=1_000_000),
        About("After how many tasks a runner is replaced", "a whole number from 1 to 1000000"),
    ] = 10_000
    runner_memory_mb: Annotated[
        Annotated[int, Field(ge=16)] | None,
        NUMBER_OR_NONE,
        About("Above how much memory a runner is replaced after a task", "megabytes, from 16, or none"),
    ] = 1024
    payload_mb: Annotated[
        int,
        NUMBER,
        Field(ge=1, le=1_048_576),
        About("How large the payload of a job may be", "megabytes, from 1 to 1048576"),
    ] = 4096
    gfs: Annotated[
        Gfs,
        FLAG_WORD,
        About("Whether the output of tasks is a blob: by size, always or never", "auto, true or false"),
    ] = "auto"
    monitoring: Annotated[
        bool, About("Whether /monitoring tells how nodes and queues are", "true or false")
    ] = True
    balance: Annotated[
        Balance,
        TABLE,
        About("Balancing of queues", "a table of enabled, log, verbose and pretend, each true or false"),
    ] = Balance()
    web_extensions: Annotated[
        dict[str, dict[str, Any]],
        PACKAGES,
        About(
            "Packages that add routes",
            "a table of dotted package names with a table of options each",
            _OWN_CODE,
        ),
    ] = Field(default_factory=dict)
    web_root: Annotated[
        Path | None, About("Folder whose files are served where no route is", "a folder", _OWN_FILE)
    ] = None
    views_dir: Annotated[
        Path | None, About("Accepted for Disbatch's sake, and unused", "a folder", _OWN_FILE)
    ] = None

    def origin(self, name: str) -> str:
        """Where the effective value came from: a flag, a variable, a file, `store` or `default`."""
        return self._origins.get(name, "default")

    def unused(self) -> dict[str, str]:
        """What somebody gave that has no effect, and why."""
        unused = dict(self._unused)
        if self.views_dir is not None:
            unused["views_dir"] = "the pages have no templates"
        if self.activequeues and self.ignorequeues:
            unused["ignorequeues"] = "activequeues is set"
        return unused

    def shown(self) -> dict[str, Any]:
        """Every value as JSON, with secrets masked."""
        return {name: masked(value) for name, value in self.model_dump(mode="json").items()}


def about(name: str) -> About:
    """What is to be said of a setting."""
    return next(note for note in Settings.model_fields[name].metadata if isinstance(note, About))


CLUSTER_WIDE = tuple(name for name in Settings.model_fields if about(name).own is None)
"""The settings that may stand in the store."""


class Given(NamedTuple):
    """A value as somebody wrote it, and where; with the reason why it has no effect, if it has none."""

    value: Any
    origin: str
    unused: str | None = None


Layer: TypeAlias = Mapping[str, Given]


def resolve(layers: Iterable[Layer]) -> Settings:
    """Merge the layers, first wins, and check the result. Raises `SettingError` for the first thing wrong."""
    merged = ChainMap(*(dict(layer) for layer in layers))
    given = {name: entry for name, entry in merged.items() if entry.unused is None}
    for name, entry in given.items():
        if name not in Settings.model_fields:
            raise UnknownSetting(name, entry.origin)
    try:
        settings = Settings.model_validate({name: entry.value for name, entry in given.items()})
    except ValidationError as error:
        raise _refusal(error, given) from None
    if (settings.tls_cert is None) != (settings.tls_key is None):
        lacking = "tls_key" if settings.tls_key is None else "tls_cert"
        raise SettingError(lacking, None, "default", about(lacking).allowed)
    settings._origins.update({name: entry.origin for name, entry in given.items()})
    settings._unused.update({name: entry.unused for name, entry in merged.items() if entry.unused})
    return settings


def check_store(settings: Settings) -> None:
    """Raise `NoSuchStore` unless this release has a store of that kind."""
    if settings.store.startswith("mongodb"):
        raise NoSuchStore(settings.store, settings.origin("store"))


def check_cluster_wide(values: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """The values as JSON to store. Raises `SettingError` for a name or value that may not stand there."""
    checked = {}
    for name, value in values.items():
        if name not in Settings.model_fields:
            raise UnknownSetting(name, origin)
        if name not in CLUSTER_WIDE:
            raise NotClusterWide(name)
        if masked(value) != value:
            raise HoldsSecret(name, value)
        checked[name] = _checked(name, value, origin)
    return checked


def has_display(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a browser window could open here."""
    return bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def _checked(name: str, value: Any, origin: str) -> Any:
    try:
        return Settings.model_validate({name: value}).model_dump(mode="json")[name]
    except ValidationError as error:
        raise _refusal(error, {name: Given(value, origin)}) from None


def _refusal(error: ValidationError, given: Layer) -> SettingError:
    """Shows the value that is not allowed; of a table, just the entry."""
    first = error.errors()[0]
    name, *entry = map(str, first["loc"])
    value = given[name].value
    if entry:
        value = first["input"] if entry[-1] == "[key]" else {entry[0]: first["input"]}
    return SettingError(name, value, given[name].origin, about(name).allowed)
