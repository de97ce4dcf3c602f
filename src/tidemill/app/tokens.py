"""Tokens: who may call, and in which roles.

A token is a secret of 256 random bits. The store keeps its name, roles, expiry and the SHA-256 of the
secret, never the secret: a slow hash protects guessable passwords, and these bits cannot be guessed.

A node that listens on loopback lets every caller in with every role while there is no token at all.
From the first token on, also an expired one, every caller needs one.
"""

import asyncio
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tidemill.app.errors import NotFound, Unauthorized
from tidemill.base.clock import Clock, boot_clock
from tidemill.store import BadRequest, Collection, Store, StoreError, Unavailable
from tidemill.store.document import Document

TOKENS = Collection("tokens")
PREFIX = "tdm_"
TAIL = 4

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_LIFE = re.compile(r"(\d{1,9})([smhdw])")
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


class Role(StrEnum):
    """What a caller may do. Admin may do what operator may, and operator what viewer may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"
    WORKER = "worker"
    PRODUCER = "producer"
    FUNCTION = "function"


_IMPLIED = {Role.ADMIN: (Role.OPERATOR, Role.VIEWER), Role.OPERATOR: (Role.VIEWER,)}


@dataclass(frozen=True, slots=True)
class Token:
    """A token as the store knows it. Instants are the store's milliseconds."""

    name: str
    roles: tuple[Role, ...]
    created: int
    expires: int | None
    tail: str
    digest: str

    def expired(self, now: int) -> bool:
        return self.expires is not None and self.expires <= now

    def shown(self, now: int) -> dict[str, Any]:
        """All but the digest, as JSON."""
        return {
            "name": self.name,
            "roles": list(self.roles),
            "created": self.created,
            "expires": self.expires,
            "expired": self.expired(now),
            "tail": self.tail,
        }


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a request, and every role this grants."""

    name: str
    roles: frozenset[Role]


def granted(roles: Iterable[Role]) -> frozenset[Role]:
    """The roles with all that they imply."""
    named = set(roles)
    return frozenset(named.union(*(_IMPLIED.get(role, ()) for role in named)))


def parse_life(text: str) -> int:
    """A duration such as `90s`, `12h`, `30d` in milliseconds. Raises `BadRequest` for anything else."""
    match = _LIFE.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise BadRequest(f"{text!r} is not a duration; write 90s, 15m, 12h, 30d or 4w")
    return int(match[1]) * _UNIT_MS[match[2]]


async def create_token(
    store: Store, name: str, roles: Iterable[Role], life_ms: int | None = None
) -> tuple[Token, str]:
    """Make a token; return it with its secret, which is not to be had again.

    Raises `Conflict` when the name is taken. After `OutcomeUnknown` the token may exist: revoke the
    name before another attempt.
    """
    kept = tuple(sorted(set(roles)))
    if not kept:
        raise BadRequest(f"a token needs at least one role of {', '.join(Role)}")
    if not _NAME.fullmatch(name):
        raise BadRequest(f"{name!r} cannot name a token: letters, digits, '.', '_' and '-', at most 63")
    secret = PREFIX + secrets.token_urlsafe(32)
    now = await store.now()
    expires = None if life_ms is None else now + life_ms
    token = Token(name, kept, now, expires, secret[-TAIL:], digest(secret))
    await store.create(TOKENS, name, _body(token))
    return token, secret


async def list_tokens(store: Store) -> list[Token]:
    """All tokens by name, expired ones too."""
    tokens: list[Token] = []
    cursor = None
    while True:
        page = await store.find(TOKENS, sort=("key",), limit=1000, cursor=cursor)
        tokens += map(_token, page.documents)
        if (cursor := page.cursor) is None:
            return tokens


async def revoke_token(store: Store, name: str) -> Token:
    """Remove a token for good; nodes stop taking it within `Keyring.MAX_AGE_S`. `NotFound` without one."""
    document = await store.get(TOKENS, name)
    if document is None:
        raise NotFound(f"there is no token {name!r}")
    await store.delete(TOKENS, name, expect=document.revision)
    return _token(document)


async def has_usable_token(store: Store) -> bool:
    """Whether any token could open the door now."""
    tokens = await list_tokens(store)
    now = await store.now() if tokens else 0
    return any(not token.expired(now) for token in tokens)


class Keyring:
    """The store's tokens, read again when they are older than `MAX_AGE_S`, and only when somebody calls.

    While the store cannot be reached, the last ones known still open the door to reading; whoever
    `changes` something is told that the store is unavailable.
    """

    MAX_AGE_S = 2.0
    MIN_AGE_S = 0.1
    REFRESH_TIMEOUT_S = 2.0

    def __init__(self, store: Store, *, open_without_tokens: bool, clock: Clock = boot_clock) -> None:
        self._store = store
        self._open = open_without_tokens
        self._clock = clock
        self._lock = asyncio.Lock()
        self._tokens: dict[str, Token] | None = None
        self._now = 0
        self._read_at = 0.0
        self._next_read = float("-inf")

    async def identify(self, secret: str | None, *, changes: bool) -> Caller:
        """Who holds this secret. Raises `Unauthorized` when it opens nothing."""
        tokens = await self._current(changes)
        unknown = secret is not None and digest(secret) not in tokens
        if unknown and self._clock() >= self._read_at + self.MIN_AGE_S:
            # It may have been made a moment ago. Asked again no oftener than that, as strangers can ask.
            self.forget()
            tokens = await self._current(changes)
        if secret is None:
            if self._open and not tokens:
                return Caller("loopback", frozenset(Role))
            raise Unauthorized("this needs a token: Authorization: Bearer tdm_…")
        # Found by its digest, so that what takes longer tells nothing about the secret.
        token = tokens.get(digest(secret))
        if token is None or not hmac.compare_digest(token.digest, digest(secret)):
            raise Unauthorized("the token is not known or was revoked")
        if token.expired(self._now + int((self._clock() - self._read_at) * 1000)):
            raise Unauthorized(f"the token {token.name!r} has expired")
        return Caller(token.name, granted(token.roles))

    def forget(self) -> None:
        """Read the tokens again at the next call: this node has just changed them."""
        self._next_read = float("-inf")

    async def _current(self, changes: bool) -> dict[str, Token]:
        async with self._lock:
            now = self._clock()
            stale = now >= self._next_read or (changes and now >= self._read_at + self.MAX_AGE_S)
            if self._tokens is None or stale:
                try:
                    await self._read()
                except StoreError:
                    if changes or self._tokens is None:
                        raise
            assert self._tokens is not None
            return self._tokens

    async def _read(self) -> None:
        started = self._clock()
        # Set first: while the store is away, readers do not each wait for it in turn.
        self._next_read = started + self.REFRESH_TIMEOUT_S + self.MAX_AGE_S
        try:
            async with asyncio.timeout(self.REFRESH_TIMEOUT_S):
                tokens = await list_tokens(self._store)
                self._now = await self._store.now() if tokens else 0
        except TimeoutError as error:
            raise Unavailable("the store did not say in time which tokens there are") from error
        self._tokens = {token.digest: token for token in tokens}
        self._read_at = started
        self._next_read = started + self.MAX_AGE_S


async def objection_to_worker(keyring: Keyring, token: str) -> str | None:
    """Why the token does not open the door to workers; None if it does. Raises when the store is away."""
    try:
        caller = await _caller(keyring, token)
    except Unauthorized as error:
        return str(error) if token else "a token with the role worker is needed: --token or TIDEMILL_TOKEN"
    if caller.roles.isdisjoint({Role.WORKER, Role.ADMIN}):
        return f"the token {caller.name!r} does not have the role worker"
    return None


async def _caller(keyring: Keyring, token: str) -> Caller:
    """Who that is. Where nobody needs a token, it does not matter what a worker says."""
    try:
        return await keyring.identify(None, changes=False)
    except Unauthorized:
        return await keyring.identify(token, changes=False)


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _body(token: Token) -> dict[str, Any]:
    return {
        "roles": list(token.roles),
        "created": token.created,
        "expires": token.expires,
        "tail": token.tail,
        "sha256": token.digest,
    }


def _token(document: Document) -> Token:
    body = document.body
    # A role that this release does not know is a newer one's, and opens nothing here.
    roles = tuple(Role(role) for role in body["roles"] if role in set(Role))
    return Token(document.key, roles, body["created"], body.get("expires"), body["tail"], body["sha256"])
