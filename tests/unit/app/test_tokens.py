"""Tokens: what the store keeps of them, and how long they open the door."""

import re

import pytest

from tidemill.app.errors import NotFound, Unauthorized
from tidemill.app.tokens import (
    TOKENS,
    Keyring,
    Role,
    create_token,
    granted,
    has_usable_token,
    list_tokens,
    objection_to_worker,
    parse_life,
    revoke_token,
)
from tidemill.store import BadRequest, Conflict, Store, Unavailable


class HandClock:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def keyring(store: Store, clock: HandClock) -> Keyring:
    return Keyring(store, open_without_tokens=True, clock=clock)


def take_away(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(*_: object, **__: object) -> None:
        raise Unavailable("gone")

    monkeypatch.setattr(store, "find", find)


async def test_the_secret_is_not_in_the_store(store: Store) -> None:
    token, secret = await create_token(store, "ci", [Role.OPERATOR])

    document = await store.get(TOKENS, "ci")
    assert document is not None
    assert re.fullmatch(r"tdm_[\w-]{43}", secret)
    assert secret not in str(document)
    assert secret.removeprefix("tdm_") not in str(document)
    assert token.tail == secret[-4:]


async def test_two_secrets_differ(store: Store) -> None:
    _, one = await create_token(store, "one", [Role.VIEWER])
    _, two = await create_token(store, "two", [Role.VIEWER])

    assert one != two


async def test_a_name_can_be_taken_once(store: Store) -> None:
    await create_token(store, "ci", [Role.VIEWER])

    with pytest.raises(Conflict):
        await create_token(store, "ci", [Role.ADMIN])

    [token] = await list_tokens(store)
    assert token.roles == (Role.VIEWER,)


@pytest.mark.parametrize(("name", "roles"), [("a b", [Role.VIEWER]), ("", [Role.VIEWER]), ("ci", [])])
async def test_a_token_needs_a_name_and_a_role(store: Store, name: str, roles: list[Role]) -> None:
    with pytest.raises(BadRequest):
        await create_token(store, name, roles)


def test_admin_implies_operator_and_viewer_and_nothing_else() -> None:
    assert granted([Role.ADMIN]) == {Role.ADMIN, Role.OPERATOR, Role.VIEWER}
    assert granted([Role.OPERATOR]) == {Role.OPERATOR, Role.VIEWER}
    for role in (Role.VIEWER, Role.WORKER, Role.PRODUCER, Role.FUNCTION):
        assert granted([role]) == {role}


@pytest.mark.parametrize(("text", "ms"), [("90s", 90_000), ("12h", 43_200_000), ("30d", 2_592_000_000)])
def test_a_life_is_read(text: str, ms: int) -> None:
    assert parse_life(text) == ms


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "1.5h", "0d", "30 d", "1y"])
def test_other_words_for_a_life_are_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="not a duration"):
        parse_life(text)


async def test_without_any_token_loopback_may_do_everything(keyring: Keyring) -> None:
    caller = await keyring.identify(None, changes=True)

    assert (caller.name, caller.roles) == ("loopback", frozenset(Role))


async def test_without_any_token_nobody_else_may(store: Store) -> None:
    with pytest.raises(Unauthorized):
        await Keyring(store, open_without_tokens=False).identify(None, changes=False)


async def test_an_unknown_secret_opens_nothing_even_without_tokens(keyring: Keyring) -> None:
    with pytest.raises(Unauthorized):
        await keyring.identify("tdm_guess", changes=False)


async def test_from_the_first_token_on_everybody_needs_one(
    store: Store, keyring: Keyring, clock: HandClock
) -> None:
    await keyring.identify(None, changes=False)
    _, secret = await create_token(store, "ci", [Role.OPERATOR])
    clock.now += Keyring.MAX_AGE_S

    with pytest.raises(Unauthorized):
        await keyring.identify(None, changes=False)
    caller = await keyring.identify(secret, changes=False)
    assert (caller.name, set(caller.roles)) == ("ci", {Role.OPERATOR, Role.VIEWER})


async def test_a_token_revoked_elsewhere_stops_within_the_age_limit(
    store: Store, keyring: Keyring, clock: HandClock
) -> None:
    _, secret = await create_token(store, "ci", [Role.VIEWER])
    await keyring.identify(secret, changes=False)
    await revoke_token(store, "ci")
    clock.now += Keyring.MAX_AGE_S

    with pytest.raises(Unauthorized, match="revoked"):
        await keyring.identify(secret, changes=False)


async def test_many_calls_cost_one_reading(store: Store, keyring: Keyring) -> None:
    _, secret = await create_token(store, "ci", [Role.VIEWER])
    await keyring.identify(secret, changes=False)
    before = store.statistics().calls

    for _ in range(100):
        await keyring.identify(secret, changes=True)

    assert store.statistics().calls == before


async def test_a_token_expires_on_the_stores_clock(store: Store, keyring: Keyring, clock: HandClock) -> None:
    _, secret = await create_token(store, "ci", [Role.VIEWER], life_ms=1500)
    await keyring.identify(secret, changes=False)
    clock.now += 1.5

    with pytest.raises(Unauthorized, match="expired"):
        await keyring.identify(secret, changes=False)


async def test_an_expired_token_still_keeps_the_door_shut(store: Store, keyring: Keyring) -> None:
    await store.create(
        TOKENS, "old", {"roles": ["admin"], "created": 0, "expires": 1, "tail": "abcd", "sha256": "0" * 64}
    )

    with pytest.raises(Unauthorized):
        await keyring.identify(None, changes=False)
    assert not await has_usable_token(store)


async def test_while_the_store_is_away_the_last_tokens_open_for_reading_only(
    store: Store, keyring: Keyring, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, secret = await create_token(store, "ci", [Role.VIEWER])
    await keyring.identify(secret, changes=False)
    clock.now += 60
    take_away(store, monkeypatch)

    assert (await keyring.identify(secret, changes=False)).name == "ci"
    with pytest.raises(Unavailable):
        await keyring.identify(secret, changes=True)


async def test_while_the_store_was_never_there_nobody_gets_in(
    store: Store, keyring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_away(store, monkeypatch)

    with pytest.raises(Unavailable):
        await keyring.identify(None, changes=False)


async def test_while_the_store_was_never_there_every_call_says_so(keyring: Keyring, store: Store) -> None:
    await store.close()
    for _ in range(3):
        with pytest.raises(Unavailable):
            await keyring.identify(None, changes=False)


async def test_a_token_made_a_moment_ago_opens_the_door(
    store: Store, keyring: Keyring, clock: HandClock
) -> None:
    await create_token(store, "first", [Role.VIEWER])
    with pytest.raises(Unauthorized):
        await keyring.identify(None, changes=False)
    _, secret = await create_token(store, "second", [Role.VIEWER])
    clock.now += Keyring.MIN_AGE_S

    assert (await keyring.identify(secret, changes=False)).name == "second"


async def test_strangers_cannot_make_a_node_read_all_the_time(store: Store, keyring: Keyring) -> None:
    await keyring.identify(None, changes=False)
    before = store.statistics().calls
    for at in range(20):
        with pytest.raises(Unauthorized):
            await keyring.identify(f"tdm_{at}", changes=False)

    assert store.statistics().calls <= before + 1


async def test_a_role_of_a_newer_release_opens_nothing_here(store: Store) -> None:
    await store.create(
        TOKENS, "new", {"roles": ["viewer", "pilot"], "created": 0, "tail": "abcd", "sha256": "0" * 64}
    )

    [token] = await list_tokens(store)

    assert token.roles == (Role.VIEWER,)


async def test_revoking_what_is_not_there_is_said(store: Store) -> None:
    with pytest.raises(NotFound):
        await revoke_token(store, "ci")


async def test_a_worker_without_a_token_is_told_which_it_needs(store: Store, keyring: Keyring) -> None:
    before = await objection_to_worker(keyring, "")
    _, viewing = await create_token(store, "viewing", [Role.VIEWER])
    _, working = await create_token(store, "working", [Role.WORKER])
    keyring.forget()

    assert before is None
    assert await objection_to_worker(keyring, working) is None
    assert "a token with the role worker is needed" in str(await objection_to_worker(keyring, ""))
    assert await objection_to_worker(keyring, "tdm_x") == "the token is not known or was revoked"
    assert "does not have the role worker" in str(await objection_to_worker(keyring, viewing))
