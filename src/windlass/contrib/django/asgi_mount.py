"""The API and the dashboard inside a Django project that runs under ASGI, with Django's own users.

In the project's asgi.py:

    application = mount(get_asgi_application(), "/jobs", windlass.asgi(app, role=role_of, login_url="/admin/login/"))
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from importlib import import_module
from io import BytesIO
from typing import Any, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
AsgiProgram: TypeAlias = Callable[[Scope, Any, Any], Awaitable[None]]


def mount(program: AsgiProgram, path: str, application: AsgiProgram) -> AsgiProgram:
    """Return a program that serves `application` below `path`, and everything else by `program`. The application gets
    the events of the lifespan, which Django does not use."""
    below = f"/{path.strip('/')}"

    async def dispatch(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await application(scope, receive, send)
            return
        root = scope.get("root_path", "").rstrip("/")
        starts = (f"{root}{below}", below)  # a server may leave its root path off the path
        if any(scope["path"] == start or scope["path"].startswith(f"{start}/") for start in starts):
            scope = {**scope, "app_root_path": root, "root_path": f"{root}{below}"}
            await application(scope, receive, send)
        else:
            await program(scope, receive, send)

    return dispatch


async def user_of(scope: Scope) -> Any:
    """Return the Django user of a request, by its session cookie, or AnonymousUser. For the function `role`."""
    from django.conf import settings
    from django.contrib.auth import aget_user
    from django.core.handlers.asgi import ASGIRequest

    request = ASGIRequest(scope, BytesIO())
    key = request.COOKIES.get(settings.SESSION_COOKIE_NAME)
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    return await aget_user(request)
