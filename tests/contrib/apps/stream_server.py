"""Web server of one framework that sends streams of jobs: `stream_server.py flask`. It prints its port.

The environment names the deployment (WINDLASS_URL, WINDLASS_NAMESPACE)."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from typing import Any

from windlass import Windlass

app = Windlass()


def starlette_app() -> Any:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from windlass.contrib.starlette import stream_response

    async def stream(request: Request) -> Response:
        return await stream_response(request, app.job(request.path_params["job_id"]))

    return Starlette(routes=[Route("/{job_id}", stream)])


def fastapi_app() -> Any:
    from fastapi import FastAPI, Request, Response

    from windlass.contrib.starlette import stream_response

    api = FastAPI()

    async def stream(job_id: str, request: Request) -> Response:
        return await stream_response(request, app.job(job_id))

    stream.__annotations__ |= {"request": Request, "return": Response}
    api.get("/{job_id}")(stream)
    return api


def flask_app() -> Any:
    from flask import Flask

    from windlass.contrib.flask import stream_response

    web = Flask(__name__)
    web.get("/<job_id>")(lambda job_id: stream_response(app.job(job_id)))
    return web


def _configure_django(view: Callable[..., Any]) -> None:
    import django
    from django.conf import settings
    from django.urls import path

    patterns = type(sys)("stream_urls")
    patterns.urlpatterns = [path("<str:job_id>", view)]  # type: ignore[attr-defined]
    settings.configure(ROOT_URLCONF=patterns, ALLOWED_HOSTS=["*"], SECRET_KEY="for tests")  # noqa: S106
    django.setup()


def django_wsgi() -> Any:
    from django.core.wsgi import get_wsgi_application

    from windlass.contrib.django import stream_response

    _configure_django(lambda request, job_id: stream_response(request, app.job(job_id)))
    return get_wsgi_application()


def django_asgi() -> Any:
    from django.core.asgi import get_asgi_application

    from windlass.contrib.django import astream_response

    async def stream(request: Any, job_id: str) -> Any:
        return await astream_response(request, app.job(job_id))

    _configure_django(stream)
    return get_asgi_application()


def serve_asgi(application: Any) -> None:
    import uvicorn

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        print(listener.getsockname()[1], flush=True)
        server = uvicorn.Server(uvicorn.Config(application, log_level="warning", lifespan="off"))
        asyncio.run(server.serve([listener]))


def serve_wsgi(application: Any) -> None:
    from werkzeug.serving import make_server

    server = make_server("127.0.0.1", 0, application, threaded=True)
    print(server.port, flush=True)
    server.serve_forever()


SERVERS: dict[str, tuple[Callable[[Any], None], Callable[[], Any]]] = {
    "starlette": (serve_asgi, starlette_app),
    "fastapi": (serve_asgi, fastapi_app),
    "flask": (serve_wsgi, flask_app),
    "django_wsgi": (serve_wsgi, django_wsgi),
    "django_asgi": (serve_asgi, django_asgi),
}

if __name__ == "__main__":
    serve, make_application = SERVERS[sys.argv[1]]
    serve(make_application())
