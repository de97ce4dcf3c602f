"""`tidemill token`: tokens, straight in the store, so that the first can be made before any node runs."""

import asyncio
import secrets
from typing import Annotated, Any

import typer

from tidemill.app.audit import audited
from tidemill.app.cli.options import ConfigFlag, DataFlag, StoreFlag, local_settings, opened
from tidemill.app.cli.output import JsonFlag, instant, person, print_json, print_rows, say, tell
from tidemill.app.settings import Settings
from tidemill.app.tokens import Keyring, Role, create_token, list_tokens, parse_life, revoke_token

app = typer.Typer(
    add_completion=False, help="Make, list and revoke the tokens that open the door.", no_args_is_help=True
)

COLUMNS = ["name", "roles", "created", "expires", "expired", "tail"]


@app.command()
def create(
    role: Annotated[
        list[Role], typer.Option("--role", help="What the token may do; may be given several times")
    ],
    name: Annotated[str | None, typer.Option("--name", help="A name to know it by")] = None,
    expires: Annotated[str | None, typer.Option("--expires", help="Life, such as 12h or 30d")] = None,
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a token and print its secret, once. From the first token on, every caller needs one.

    Example: tidemill token create --role operator --name ci --expires 30d
    """
    life = None if expires is None else parse_life(expires)
    chosen = name or f"{role[0]}-{secrets.token_hex(3)}"
    made = asyncio.run(_create(local_settings(store, data, config), chosen, role, life))
    if as_json:
        print_json(made)
        return
    say(f"token {made['name']} ({', '.join(made['roles'])}); keep it, it is not shown again:")
    typer.echo(made["secret"])


@app.command(name="list")
def list_(
    store: StoreFlag = None, data: DataFlag = None, config: ConfigFlag = None, as_json: JsonFlag = False
) -> None:
    """List tokens, without their secrets. Example: tidemill token list"""
    rows = asyncio.run(_list(local_settings(store, data, config)))
    if as_json:
        print_json(rows)
    else:
        print_rows(
            [row | {"created": instant(row["created"]), "expires": instant(row["expires"])} for row in rows],
            COLUMNS,
        )


@app.command()
def revoke(
    name: Annotated[str, typer.Argument(help="Name of the token")],
    store: StoreFlag = None,
    data: DataFlag = None,
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Take a token's power away, within seconds and for good. Example: tidemill token revoke ci"""
    left = asyncio.run(_revoke(local_settings(store, data, config), name))
    message = f"token {name} is revoked; nodes stop taking it within {Keyring.MAX_AGE_S:g} s"
    tell({"deleted": name}, as_json, message)
    if not left:
        say("that was the last one: nodes on loopback now let every caller in, others nobody")


async def _create(settings: Settings, name: str, roles: list[Role], life_ms: int | None) -> dict[str, Any]:
    async with opened(settings, create=True) as store:
        async with audited(store, person(), "token create", name) as entry:
            entry.detail = ", ".join(sorted(roles))
            token, secret = await create_token(store, name, roles, life_ms)
            return token.shown(token.created) | {"secret": secret}


async def _list(settings: Settings) -> list[dict[str, Any]]:
    async with opened(settings, create=False) as store:
        tokens, now = await list_tokens(store), await store.now()
        return [token.shown(now) for token in tokens]


async def _revoke(settings: Settings, name: str) -> int:
    """Revoke; say how many tokens are left."""
    async with opened(settings, create=False) as store:
        async with audited(store, person(), "token revoke", name):
            await revoke_token(store, name)
        return len(await list_tokens(store))
