"""Tokens: make, list and revoke."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response, status
from pydantic import BaseModel, Field

from tidemill.app.http.context import NodeContext
from tidemill.app.http.door import require
from tidemill.app.http.recorder import describe
from tidemill.app.tokens import Keyring, Role, create_token, list_tokens, parse_life, revoke_token


class NewToken(BaseModel):
    """What is asked for. `expires` is a duration such as `30d`; without it the token does not expire."""

    name: str
    roles: list[Role] = Field(min_length=1)
    expires: str | None = None


def routes(context: NodeContext, keyring: Keyring) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["tokens"], dependencies=[require(Role.ADMIN)])
    store = context.store

    @router.get("/tokens")
    async def get_tokens() -> dict[str, Any]:
        """All tokens, without their secrets."""
        tokens, now = await list_tokens(store), await store.now()
        return {"tokens": [token.shown(now) for token in tokens]}

    @router.post("/tokens", status_code=status.HTTP_201_CREATED)
    async def post_token(request: Request, response: Response, new: NewToken) -> dict[str, Any]:
        """Make a token. The answer holds its `secret`, which is not to be had again."""
        life = None if new.expires is None else parse_life(new.expires)
        describe(request.scope, f"token {new.name}: {', '.join(sorted(new.roles))}")
        token, secret = await create_token(store, new.name, new.roles, life)
        keyring.forget()
        response.headers["Location"] = f"/api/v1/tokens/{token.name}"
        return token.shown(token.created) | {"secret": secret}

    @router.delete("/tokens/{name}", status_code=status.HTTP_204_NO_CONTENT)
    async def delete_token(name: Annotated[str, Path()]) -> None:
        """Revoke a token, at once on this node and within seconds on the others."""
        await revoke_token(store, name)
        keyring.forget()

    return router
