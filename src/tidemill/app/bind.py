"""Which addresses a node may listen on, and under which it is reached."""

import ipaddress

from tidemill.app.settings import SettingError, Settings
from tidemill.base.errors import TidemillError


class BindRefused(SettingError):
    """The node would listen to the network while everybody who reaches it could do everything."""

    code = "door.bind"

    def __init__(self, host: str) -> None:
        TidemillError.__init__(
            self,
            f"setting host: {host!r} is not loopback and there is no token, so anybody on the network could "
            "do anything; first run: tidemill token create --role admin --name NAME",
        )
        self.name = "host"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_bind(host: str, has_token: bool) -> None:
    """Refuse to listen on anything but loopback without a token."""
    if not has_token and not is_loopback(host):
        raise BindRefused(host)


def url_of(settings: Settings, wildcard: str) -> str:
    """The address of the node as a URL; a wildcard is no address, and `wildcard` stands in for it."""
    host = wildcard if settings.host in ("0.0.0.0", "::") else settings.host
    name = f"[{host}]" if ":" in host else host
    return f"{'https' if settings.tls_cert else 'http'}://{name}:{settings.port}"
