"""Puts the app together: routes, and around them from the outside in headers, gate, tokens, audit."""

import asyncio
from collections.abc import Sequence

from fastapi import APIRouter, FastAPI
from starlette.middleware.cors import CORSMiddleware

import tidemill
from tidemill.app.http import worker_socket
from tidemill.app.http.context import NodeContext
from tidemill.app.http.door import Authenticate, Gate, is_loopback
from tidemill.app.http.extensions import include_extension, serve_folder
from tidemill.app.http.headers import SafeHeaders
from tidemill.app.http.prefix import Prefix
from tidemill.app.http.problem import install_problems
from tidemill.app.http.recorder import Recorder
from tidemill.app.http.routes import (
    audit,
    balance,
    batches,
    cluster,
    events,
    health,
    information,
    job_submission,
    jobs,
    leases,
    metrics,
    monitoring,
    nodes,
    outcomes,
    page,
    plugins,
    queues,
    schedule_changes,
    schedules,
    settings,
    submission,
    task_contents,
    task_queries,
    tasks,
    tokens,
    workers,
)
from tidemill.app.http.shortcut import Shortcut, queue_of
from tidemill.app.tokens import Keyring

# The key of a task may hold slashes, so whatever comes below it is looked at before the task itself.
_TASKS = (queues, submission, outcomes, task_queries, task_contents, tasks, schedules, schedule_changes)
_JOBS = (job_submission, jobs, batches, workers)
_NODES = (health, cluster, nodes, plugins, balance, monitoring, information, events, settings, audit, leases)


def build_app(context: NodeContext, extensions: Sequence[APIRouter] = ()) -> FastAPI:
    """The HTTP face of a node. Starts nothing and reads nothing before the first request.

    Our routes come first, then those of the extensions, then the files of `web_root`.
    """
    keyring = Keyring(context.store, open_without_tokens=is_loopback(context.settings.host))
    app = FastAPI(
        title="Tidemill",
        version=tidemill.__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,  # the usual pages load scripts from elsewhere
        redoc_url=None,
    )
    install_problems(app)
    for module in (*_JOBS, *_NODES, *_TASKS):  # what is called most is looked at first
        app.include_router(module.routes(context))
    app.include_router(worker_socket.routes(context))
    app.include_router(metrics.routes(context))
    app.include_router(tokens.routes(context, keyring))
    page.mount(app, context)
    app.state.node = context  # for extensions, which have no other way to it
    app.state.leaving = asyncio.Event()  # whoever serves the app sets it, and streams end
    for extension in extensions:
        include_extension(app, extension)
    if context.settings.web_root is not None:
        serve_folder(app, context.settings.web_root)
    # The last one added is the outermost.
    app.add_middleware(Shortcut, context=context)
    app.add_middleware(Recorder, store=context.store, writes_own=lambda scope: queue_of(scope) is not None)
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
    if context.settings.path_prefix:
        app.add_middleware(Prefix, prefix=context.settings.path_prefix)
    return app
