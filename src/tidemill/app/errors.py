"""What callers of the application run into, besides the errors of the store and of settings.

TidemillError
├─ NotFound        there is nothing of that name
├─ NotInstalled    what was asked for needs a package that is not there
├─ Unauthorized    a token is needed, or the one given is not known, revoked or expired
└─ Forbidden       the token does not have the role that is needed, or the request came from a foreign page
"""

from tidemill.base.errors import TidemillError


class NotFound(TidemillError):
    """There is nothing of that name."""

    code = "not_found"


class NotInstalled(TidemillError):
    """What was asked for needs a package that is not there. The message says how to install it."""

    code = "not_installed"


class Unauthorized(TidemillError):
    """A token is needed, or the one given is not known, revoked or expired."""

    code = "door.unauthorized"


class Forbidden(TidemillError):
    """The caller is known, but lacks the role that is needed."""

    code = "door.forbidden"


class ForeignHost(Forbidden):
    """The request names a host that is not this node: perhaps a name that was pointed at it by a web page."""

    code = "door.host"


class ForeignOrigin(Forbidden):
    """The request was made by a web page of another origin."""

    code = "door.origin"
