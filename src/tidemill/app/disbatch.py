"""A file of Disbatch's settings, in our words.

mongohost, database, attributes, auth    `store`, an address of MongoDB
log4perl                                 `log_level`, by its level

What Disbatch calls as we do, such as `plugins`, stays as it is. What has no effect here stays in the layer,
marked as unused, so that its owner is told.
"""

import re
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from tidemill.app.settings import DISBATCH_KEYS, Given, Layer, SettingError

USER = "disbatchd"
LEVELS = {
    "TRACE": "debug",
    "DEBUG": "debug",
    "INFO": "info",
    "WARN": "warning",
    "ERROR": "error",
    "FATAL": "error",
}
ALLOWED = {
    "mongohost": "a MongoDB address such as mongodb://host:27017, or host:port with commas between",
    "database": "the name of the MongoDB database at mongohost",
    "attributes": "a table of connection attributes",
    "attributes.ssl": 'true, false, {"SSL_ca_file": a file} or {"SSL_verify_mode": 0 or 1}',
    "auth": f"a table of users with their passwords, {USER} among them",
    "log4perl": "a table with a level",
    "log4perl.level": ", ".join(LEVELS),
}

_STORE_KEYS = ("mongohost", "database", "attributes", "auth")
_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::\d{1,5})?"
_ADDRESS = re.compile(
    rf"(?P<scheme>mongodb(?:\+srv)?)://(?:(?P<user>[^@/\s]+)@)?(?P<hosts>{_HOST}(?:,{_HOST})*)"
    r"(?:/(?P<database>[^?/\s]*))?(?:\?(?P<options>\S*))?"
)
_DATABASE = re.compile(r'[^/\\. "$*<>:|?\0]{1,63}')


def translated(layer: Layer) -> Layer:
    """The layer with Disbatch's keys in our words; one without them stays as it is.

    A key of ours in the same layer wins over one of theirs that says the same. Raises `SettingError` for a
    value that Disbatch would not take either.
    """
    ours = {name: given for name, given in layer.items() if name not in DISBATCH_KEYS}
    theirs = {
        name: given for name, given in layer.items() if name in DISBATCH_KEYS and given.value is not None
    }
    return {**_store(theirs, "store" in ours), **_log_level(theirs, "log_level" in ours), **ours}


def _store(theirs: Layer, is_set: bool) -> Layer:
    present = [name for name in _STORE_KEYS if name in theirs]
    if is_set:
        return {name: _unused(theirs[name], "store is set") for name in present}
    if not present:
        return {}
    origin = theirs[present[0]].origin
    for name in ("mongohost", "database"):
        if name not in theirs:
            raise SettingError(name, None, origin, ALLOWED[name])
    address, unused = _address(theirs)
    return {"store": Given(address, f"mongohost in {origin}"), **unused}


def _address(theirs: Layer) -> tuple[str, Layer]:
    mongohost, database = theirs["mongohost"], theirs["database"]
    text = mongohost.value if isinstance(mongohost.value, str) else ""
    parts = _ADDRESS.fullmatch(text if "://" in text else f"mongodb://{text}")
    if parts is None:
        raise _refused("mongohost", mongohost)
    if not isinstance(database.value, str) or not _DATABASE.fullmatch(database.value):
        raise _refused("database", database)
    options = dict(parse_qsl(parts["options"] or ""))
    unused: dict[str, Given] = {}
    if parts["database"] and parts["database"] != database.value:
        # In an address it is where users are known, which for Disbatch need not be where its documents are.
        options.setdefault("authSource", parts["database"])
    user = parts["user"]
    if "attributes" in theirs:
        options |= _tls(theirs["attributes"])
        unused |= _others("attributes", theirs["attributes"], "ssl", "of the attributes only ssl is heeded")
    if "auth" in theirs:
        user = f"{USER}:{_password(theirs['auth'])}"
        unused |= _others("auth", theirs["auth"], USER, f"a node is {USER} to the database in all it does")
    query = f"?{urlencode(options, safe='/')}" if options else ""
    place = f"{parts['hosts']}/{database.value}{query}"
    return f"{parts['scheme']}://{user}@{place}" if user else f"{parts['scheme']}://{place}", unused


def _tls(attributes: Given) -> dict[str, str]:
    ssl = _table("attributes", attributes).get("ssl")
    match ssl:
        case None | 0:
            return {}
        case 1:
            return {"tls": "true"}
        case {"SSL_ca_file": str(file)} if file and len(ssl) == 1:
            return {"tls": "true", "tlsCAFile": file}
        case {"SSL_verify_mode": 0} if len(ssl) == 1:
            return {"tls": "true", "tlsAllowInvalidCertificates": "true"}
        case {"SSL_verify_mode": 1} if len(ssl) == 1:
            return {"tls": "true"}
    raise _refused("attributes.ssl", attributes._replace(value=ssl))


def _password(auth: Given) -> str:
    users = auth.value
    if not isinstance(users, dict) or not isinstance(users.get(USER), str):
        raise _refused("auth", auth._replace(value="***"))
    return quote(users[USER], safe="")


def _log_level(theirs: Layer, is_set: bool) -> Layer:
    if "log4perl" not in theirs:
        return {}
    given = theirs["log4perl"]
    layer = _others("log4perl", given, "level", "events go to standard error")
    if "level" not in _table("log4perl", given):
        return layer
    level = given.value["level"]
    if not isinstance(level, str) or level.upper() not in LEVELS:
        raise _refused("log4perl.level", given._replace(value=level))
    if is_set:
        return {"log4perl.level": _unused(given, "log_level is set"), **layer}
    return {"log_level": Given(LEVELS[level.upper()], f"log4perl.level in {given.origin}"), **layer}


def _others(name: str, given: Given, heeded: str, reason: str) -> dict[str, Given]:
    """All entries of a table but one, as unused."""
    return {f"{name}.{entry}": _unused(given, reason) for entry in _table(name, given) if entry != heeded}


def _table(name: str, given: Given) -> dict[str, Any]:
    if not isinstance(given.value, dict):
        raise _refused(name, given)
    return given.value


def _unused(given: Given, reason: str) -> Given:
    """Without its value, which may be a password."""
    return Given(None, given.origin, unused=reason)


def _refused(name: str, given: Given) -> SettingError:
    return SettingError(name, given.value, given.origin, ALLOWED[name])
