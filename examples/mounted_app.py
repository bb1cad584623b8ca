"""FastAPI program with the dashboard and the API of Windlass under /jobs, behind its own login.

uvicorn mounted_app:api
windlass worker mounted_app:app

http://localhost:8000/login?user=grace   → logs in; a real program asks for a password here
http://localhost:8000/jobs/              → the dashboard; grace is an admin, every other user is a reader
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware

from windlass import Access, Windlass, asgi

app = Windlass()
ADMINS = {"grace"}


@app.task(queue="mail")
async def send_mail(to: str) -> None:
    print("to", to)


def role_of(scope: MutableMapping[str, Any]) -> Access | None:
    """Return what the user of this request may do, by the session of this program; None: not logged in."""
    user = scope["session"].get("user")
    if user is None:
        return None
    return Access(role="admin" if user in ADMINS else "read", name=user)


jobs = asgi(app, role=role_of, login_url="/login")


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with jobs:  # run schedules, callbacks and bulk actions from the start, and stop them in order
        yield


api = FastAPI(lifespan=lifespan, middleware=[Middleware(SessionMiddleware, secret_key=secrets.token_hex())])
api.mount("/jobs", jobs)


@api.get("/login")
async def login(request: Request, user: str = "ada", next: str = "/jobs/") -> RedirectResponse:  # noqa: A002
    request.session["user"] = user
    return RedirectResponse(next if next.startswith("/jobs/") else "/jobs/", status_code=303)


@api.post("/mails")
async def mail(to: str) -> dict[str, str]:
    return {"id": (await send_mail.aenqueue(to)).id}
