"""Options that several commands share, and how they open the store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from tidemill.app.errors import NotFound
from tidemill.app.json_text import decoded
from tidemill.app.layers import local_layers
from tidemill.app.logs import configure_logs
from tidemill.app.settings import SettingError, Settings, about, check_store, resolve
from tidemill.store import Store, open_store
from tidemill.tasks.errors import BadTask


def setting(name: str) -> typer.models.OptionInfo:
    """The flag of a setting. Its value is checked with the other layers, so that messages are the same."""
    flag = "--" + name.replace("_", "-")
    option: typer.models.OptionInfo = typer.Option(
        flag, help=about(name).text, show_default=False, metavar=name.upper()
    )
    return option


StoreFlag: TypeAlias = Annotated[str | None, setting("store")]
DataFlag: TypeAlias = Annotated[str | None, setting("data")]
ConfigFlag: TypeAlias = Annotated[
    Path | None, typer.Option("--config", help="File of settings instead of ./tidemill.toml or .json")
]


def given_json(what: str, text: str | bytes) -> Any:
    """What was given as JSON. Raises `BadTask` with what is wrong with it."""
    try:
        return decoded(text)
    except ValueError as error:
        raise BadTask(f"{what} is no JSON: {error}") from error


def local_settings(store: str | None, data: str | None, config: Path | None) -> Settings:
    """The settings without those of the store."""
    return resolve(local_layers({"store": store, "data": data}, config))


@asynccontextmanager
async def opened(settings: Settings, *, create: bool) -> AsyncIterator[Store]:
    """The store, open. A file that is not there is made only with `create`; else it raises `NotFound`."""
    check_store(settings)
    path = sqlite_path(settings)
    if path is not None and not path.exists():
        if not create:
            raise NotFound(
                f"there is no store at {path}; name another with --store, or start one: tidemill up"
            )
        make_private(path.parent)
    # A command tells what it did itself; a node sets its own level when it starts.
    configure_logs("warning")
    async with open_store(settings.store) as store:
        yield store


def sqlite_path(settings: Settings) -> Path | None:
    """The file of the store, when it is one."""
    return (
        Path(settings.store.removeprefix("sqlite:///")) if settings.store.startswith("sqlite:///") else None
    )


def make_private(folder: Path) -> None:
    """Make the folder, for its owner's eyes only; one that exists stays as it is."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        reason = f"a folder that this user can write ({error.strerror})"
        raise SettingError("data or store", str(folder), "the settings", reason) from error
