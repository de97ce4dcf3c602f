"""How uvicorn serves the app."""

import uvicorn
from starlette.types import ASGIApp

from tidemill.app.settings import Settings


def server_config(app: ASGIApp, settings: Settings) -> uvicorn.Config:
    """Address and TLS from the settings; logs go through our own formatter.

    Forwarded headers are not trusted: they would let a caller choose the address it seems to come from.
    """
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        ws="websockets-sansio",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=5,
    )
