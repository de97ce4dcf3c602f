"""How uvicorn serves the app."""

import uvicorn
from starlette.types import ASGIApp

from tidemill.app.http.pieces import PiecewiseProtocol
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
        ws=PiecewiseProtocol,
        ws_max_size=settings.worker_message_mb * 2**20,
        ws_ping_interval=20.0,
        ws_ping_timeout=None,  # a worker that computes need not answer; see `listening`
        ws_per_message_deflate=False,  # it would cost memory for each worker, and payloads are often packed
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=5,
    )
