"""Settings: what they are, what is allowed, and where each effective value came from.

Layers, first wins:

    flags  >  environment TIDEMILL_*  >  tidemill.toml or tidemill.json  >  the store  >  default

A layer is a mapping from name to a value with its origin; `resolve` merges layers and checks the
result. Nothing else in Tidemill reads the environment for settings.
"""

import difflib
import json
import os
import re
import socket
import tomllib
from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
)

from tidemill.app.mask import masked
from tidemill.base.errors import TidemillError
from tidemill.store.open import ADDRESSES

PREFIX = "TIDEMILL_"
CONFIG_FILES = ("tidemill.toml", "tidemill.json")
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]

_SCHEMES = ("memory", "sqlite", "postgresql", "postgres")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_HOST = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?|[0-9a-f:.]+")
_ORIGIN = re.compile(r"https?://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:\d{1,5})?")
# Of others: the test suite's own, and what Kubernetes sets for a service that is called tidemill.
_FOREIGN = re.compile(r"TIDEMILL_(TEST_|SIM_|SERVICE_|PORT_)")


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
        near = difflib.get_close_matches(name, Settings.model_fields, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(Settings.model_fields)}"
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


def _store_url(value: Any) -> Any:
    if isinstance(value, str) and urlsplit(value).scheme not in _SCHEMES:
        raise ValueError
    return value


def _no_truth(value: Any) -> Any:
    """To Python, true is the number 1; to whoever wrote it into a file it is not."""
    if isinstance(value, bool):
        raise ValueError  # noqa: TRY004 - pydantic takes this one for a refusal
    return value


_NUMBER = BeforeValidator(_no_truth)


def _listed(pattern: re.Pattern[str]) -> BeforeValidator:
    """A list, or text with commas; every entry in lower case and of that form."""

    def check(value: Any) -> Any:
        entries = value.split(",") if isinstance(value, str) else value
        if not isinstance(entries, list | tuple):
            return value
        if not all(isinstance(entry, str) for entry in entries):
            raise ValueError
        cleaned = [entry.strip().lower().rstrip("/") for entry in entries]
        if not all(pattern.fullmatch(entry) for entry in cleaned if entry):
            raise ValueError
        return tuple(entry for entry in cleaned if entry)

    return BeforeValidator(check)


def _host_name() -> str:
    """This machine's name; what a node cannot be called by becomes a dash."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()).lstrip("._-")[:63] or "node"


def _default_store(given: dict[str, Any]) -> str:
    return f"sqlite:///{given.get('data', '')}/tidemill.db"


_OWN_PLACE = "nodes differ in it, and it must be known before the store can be read"
_OWN_FILE = "it names a file on the node's own machine"


class Settings(BaseModel):
    """Every setting of a node, checked. Build it with `resolve`, or by keyword in tests."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    _origins: dict[str, str] = PrivateAttr(default_factory=dict)

    data: Annotated[Path, About("Folder for local files", "a folder", _OWN_PLACE)] = Path(".tidemill")
    store: Annotated[
        str,
        BeforeValidator(_store_url),
        About("Address of the store that the cluster shares", ADDRESSES, _OWN_PLACE),
    ] = Field(default_factory=_default_store)
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
        _NUMBER,
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
        _NUMBER,
        Field(ge=0, le=10_000),
        About("How much work the node takes at a time", "a whole number from 0 to 10000"),
    ] = Field(default_factory=lambda: os.cpu_count() or 1)
    ttl_s: Annotated[
        float,
        _NUMBER,
        Field(ge=0.5, le=300),
        About("How long a lease outlives its last renewal", "seconds, from 0.5 to 300"),
    ] = 5.0
    tls_cert: Annotated[
        Path | None, About("TLS certificate chain", "a PEM file, together with tls_key", _OWN_FILE)
    ] = None
    tls_key: Annotated[
        Path | None, About("TLS private key", "a PEM file, together with tls_cert", _OWN_FILE)
    ] = None
    log_level: Annotated[LogLevel, About("Least severe messages to log", "debug, info, warning or error")] = (
        "info"
    )
    allowed_hosts: Annotated[
        tuple[str, ...],
        _listed(_HOST),
        About(
            "Names besides loopback under which the node may be called",
            "host names without port, with commas between; no wildcards",
        ),
    ] = ()
    allowed_origins: Annotated[
        tuple[str, ...],
        _listed(_ORIGIN),
        About(
            "Web pages of other origins that may call the node",
            "origins such as https://example.org, with commas between",
        ),
    ] = ()

    def origin(self, name: str) -> str:
        """Where the effective value came from: a flag, a variable, a file, `store` or `default`."""
        return self._origins.get(name, "default")

    def shown(self) -> dict[str, Any]:
        """Every value as JSON, with secrets masked."""
        return {name: masked(value) for name, value in self.model_dump(mode="json").items()}


def about(name: str) -> About:
    """What is to be said of a setting."""
    return next(note for note in Settings.model_fields[name].metadata if isinstance(note, About))


CLUSTER_WIDE = tuple(name for name in Settings.model_fields if about(name).own is None)
"""The settings that may stand in the store."""


class Given(NamedTuple):
    """A value as somebody wrote it, and where."""

    value: Any
    origin: str


Layer: TypeAlias = Mapping[str, Given]


def resolve(layers: Iterable[Layer]) -> Settings:
    """Merge the layers, first wins, and check the result. Raises `SettingError` for the first thing wrong."""
    given = ChainMap(*(dict(layer) for layer in layers))
    for name, (_, origin) in given.items():
        if name not in Settings.model_fields:
            raise UnknownSetting(name, origin)
    try:
        settings = Settings.model_validate({name: entry.value for name, entry in given.items()})
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        raise SettingError(name, given[name].value, given[name].origin, about(name).allowed) from None
    if (settings.tls_cert is None) != (settings.tls_key is None):
        lacking = "tls_key" if settings.tls_key is None else "tls_cert"
        raise SettingError(lacking, None, "default", about(lacking).allowed)
    settings._origins.update({name: entry.origin for name, entry in given.items()})
    return settings


def local_layers(
    flags: Mapping[str, Any],
    config: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    folder: Path = Path(),
) -> list[Layer]:
    """What this process was told: flags (None counts as absent), environment, file. The store comes after."""
    named = config or (Path(environ[PREFIX + "CONFIG"]) if environ.get(PREFIX + "CONFIG") else None)
    return [
        {name: Given(v, "--" + name.replace("_", "-")) for name, v in flags.items() if v is not None},
        _environment_layer(environ),
        _file_layer(named or _usual_file(folder)),
    ]


def check_cluster_wide(values: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """The values as JSON to store. Raises `SettingError` for a name or value that may not stand there."""
    checked = {}
    for name, value in values.items():
        if name not in Settings.model_fields:
            raise UnknownSetting(name, origin)
        if name not in CLUSTER_WIDE:
            raise NotClusterWide(name)
        checked[name] = _checked(name, value, origin)
    return checked


def has_display(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a browser window could open here."""
    return bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def _checked(name: str, value: Any, origin: str) -> Any:
    try:
        return Settings.model_validate({name: value}).model_dump(mode="json")[name]
    except ValidationError:
        raise SettingError(name, value, origin, about(name).allowed) from None


def _environment_layer(environ: Mapping[str, str]) -> Layer:
    layer = {}
    for variable, value in environ.items():
        name = variable.removeprefix(PREFIX)
        # Kubernetes sets TIDEMILL_PORT=tcp://… when there is a service called tidemill.
        foreign = (
            _FOREIGN.match(variable) or name == "CONFIG" or (name == "PORT" and value.startswith("tcp://"))
        )
        if variable.startswith(PREFIX) and not foreign:
            layer[name.lower()] = Given(value, variable)
    return layer


def _usual_file(folder: Path) -> Path | None:
    present = [folder / name for name in CONFIG_FILES if (folder / name).exists()]
    if len(present) > 1:
        raise ConfigFileError(
            f"both {' and '.join(CONFIG_FILES)} are here; keep one, or name one with --config"
        )
    return present[0] if present else None


def _file_layer(path: Path | None) -> Layer:
    if path is None:
        return {}
    if path.suffix not in (".toml", ".json"):
        raise ConfigFileError(f"{path} is neither .toml nor .json")
    try:
        text = path.read_text(encoding="utf-8")
        values = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise ConfigFileError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigFileError(f"{path} is not valid {path.suffix.lstrip('.')}: {error}") from error
    if not isinstance(values, dict):
        raise ConfigFileError(f"{path} must hold names with values")
    return {name: Given(value, str(path)) for name, value in values.items()}
