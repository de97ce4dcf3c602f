"""Puts the app together: routes, and around them from the outside in headers, gate, tokens, audit."""

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

import tidemill
from tidemill.app.http.context import NodeContext
from tidemill.app.http.door import Authenticate, Gate, is_loopback
from tidemill.app.http.headers import SafeHeaders
from tidemill.app.http.problem import install_problems
from tidemill.app.http.recorder import Recorder
from tidemill.app.http.routes import audit, cluster, health, leases, metrics, page, settings, tokens
from tidemill.app.tokens import Keyring


def build_app(context: NodeContext) -> FastAPI:
    """The HTTP face of a node. Starts nothing and reads nothing before the first request."""
    keyring = Keyring(context.store, open_without_tokens=is_loopback(context.settings.host))
    app = FastAPI(
        title="Tidemill",
        version=tidemill.__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,  # the usual pages load scripts from elsewhere
        redoc_url=None,
    )
    install_problems(app)
    for module in (health, cluster, settings, audit, leases):
        app.include_router(module.routes(context))
    app.include_router(metrics.routes(context))
    app.include_router(tokens.routes(context, keyring))
    page.mount(app, context)
    # The last one added is the outermost.
    app.add_middleware(Recorder, store=context.store)
    app.add_middleware(Authenticate, keyring=keyring)
    if context.settings.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(context.settings.allowed_origins),
            allow_methods=["*"],
            allow_headers=["Authorization", "Content-Type", "If-Match", "If-None-Match", "Idempotency-Key"],
            expose_headers=["ETag", "Location"],
        )
    app.add_middleware(Gate, settings=context.settings)
    app.add_middleware(SafeHeaders)
    return app
