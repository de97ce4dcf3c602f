"""What a node serves besides its own: routes of packages that `web_extensions` names, files of `web_root`.

A package is a module with a function

    def init(router: APIRouter, options: dict) -> None

which adds its routes to the router. They come after all of ours, so that ours win, and pass the same door: a
route that names no role with `require(Role)` needs a viewer to read and an operator to do anything else. In a
route, `request.app.state.node` is the node.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import iter_route_contexts
from starlette.requests import HTTPConnection

from tidemill.app.http.door import admit, changes, require
from tidemill.app.settings import SettingError, Settings
from tidemill.app.tokens import Role


def load_extensions(settings: Settings) -> list[APIRouter]:
    """Import the packages and let each add its routes to a router, in the order in which they are named.

    Raises `SettingError` for one that cannot be had or that fails, and for a `web_root` that is no folder, so
    that a node does not start without what it was told to serve.
    """
    root = settings.web_root
    if root is not None and not root.is_dir():
        raise SettingError("web_root", str(root), settings.origin("web_root"), "a folder that exists")
    origin = settings.origin("web_extensions")
    return [_load(name, options, origin) for name, options in settings.web_extensions.items()]


def include_extension(app: FastAPI, router: APIRouter) -> None:
    """Add the routes; where one says nothing of roles, the method decides."""
    routes = list(iter_route_contexts(router.routes))
    silent = {route.endpoint for route in routes if not _names_role(route.dependant)}
    spoken_for = {route.endpoint for route in routes} - silent

    def by_method(connection: HTTPConnection) -> None:
        if connection.scope.get("endpoint") not in spoken_for:
            admit(connection.scope, Role.OPERATOR if changes(connection.scope) else Role.VIEWER)

    app.include_router(router, dependencies=[Depends(by_method)])


def serve_folder(app: FastAPI, folder: Path) -> None:
    """Serve the files of a folder wherever no route is; neither lists it nor follows links out of it."""
    router = APIRouter(dependencies=[require(Role.VIEWER)])
    router.frontend("/", directory=folder, fallback=None, check_dir=True)
    app.include_router(router)


def _load(name: str, options: dict[str, Any], origin: str) -> APIRouter:
    router = APIRouter()
    try:
        module = import_module(name)
        init = getattr(module, "init", None)
        if not callable(init):
            raise _refused(name, origin, "it has no function init(router, options)")
        init(router, options)
    except SettingError:
        raise
    except (Exception, SystemExit) as error:
        raise _refused(name, origin, f"{type(error).__name__}: {error}") from error
    # Whatever else a router can hold, such as a mounted app, takes no dependencies and would stand open.
    if any(not hasattr(route, "dependant") for route in iter_route_contexts(router.routes)):
        raise _refused(
            name, origin, "it adds something other than routes of FastAPI, which the door cannot guard"
        )
    return router


def _refused(name: str, origin: str, reason: str) -> SettingError:
    return SettingError("web_extensions", name, origin, f"packages that can be loaded ({reason})")


def _names_role(dependant: Dependant) -> bool:
    return any(hasattr(part.call, "role") or _names_role(part) for part in dependant.dependencies)
