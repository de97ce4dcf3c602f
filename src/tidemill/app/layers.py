"""What a process was told of its settings: by flags, by the environment and by a file, each a layer."""

import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidemill.app.disbatch import translated
from tidemill.app.settings import ConfigFileError, Given, Layer

PREFIX = "TIDEMILL_"
CONFIG_FILES = ("tidemill.toml", "tidemill.json")

# Of others: the test suite's own, and what Kubernetes sets for a service that is called tidemill.
_FOREIGN = re.compile(r"TIDEMILL_(TEST_|SIM_|SERVICE_|PORT_)")
# Disbatch, whose files we read, allows comments and a comma after the last entry. A string is kept as it is.
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|#.*')
_LAST_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])')


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
        translated(_file_layer(named or _usual_file(folder))),
    ]


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
        values = _from_json(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise ConfigFileError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigFileError(f"{path} is not valid {path.suffix.lstrip('.')}: {error}") from error
    if not isinstance(values, dict):
        raise ConfigFileError(f"{path} must hold names with values")
    return {name: Given(value, str(path)) for name, value in values.items()}


def _from_json(text: str) -> Any:
    for extra in (_COMMENT, _LAST_COMMA):
        text = extra.sub(lambda found: found[1] or "", text)
    return json.loads(text)
