"""Django project with its admin pages, and Windlass mounted under /jobs: `django_host.py DATABASE`. It prints its port.

The environment names the deployment (WINDLASS_URL, WINDLASS_NAMESPACE). The users are grace, a superuser, ada, of the
staff, and joan, a customer; each one's password is the name."""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Any

import django
import uvicorn
from django.conf import settings
from django.urls import path

from windlass import Access, Windlass, asgi

urls = type(sys)("host_urls")
sys.modules["host_urls"] = urls
settings.configure(
    SECRET_KEY="for tests",  # noqa: S106
    ALLOWED_HOSTS=["127.0.0.1"],
    ROOT_URLCONF="host_urls",
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    INSTALLED_APPS=[
        f"django.contrib.{name}" for name in ("admin", "auth", "contenttypes", "sessions", "messages", "staticfiles")
    ],
    STATIC_URL="/static/",
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "APP_DIRS": True,
            "OPTIONS": {
                "context_processors": [
                    "django.template.context_processors.request",
                    "django.contrib.auth.context_processors.auth",
                    "django.contrib.messages.context_processors.messages",
                ]
            },
        }
    ],
)
django.setup()

from django.contrib import admin  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.core.asgi import get_asgi_application  # noqa: E402
from django.core.management import call_command  # noqa: E402

from windlass.contrib.django import mount, user_of  # noqa: E402

urls.urlpatterns = [path("admin/", admin.site.urls)]  # type: ignore[attr-defined]


def make_users() -> None:
    call_command("migrate", verbosity=0)
    for name in ("grace", "ada", "joan"):
        User.objects.create_user(name, password=name, is_staff=name != "joan", is_superuser=name == "grace")


async def role_of(scope: Any) -> Access | None:
    user = await user_of(scope)
    if not (user.is_active and user.is_staff):
        return None
    return Access(role="admin" if user.is_superuser else "read", name=user.get_username())


def main() -> None:
    make_users()
    jobs = asgi(Windlass(), role=role_of, login_url="/admin/login/")
    program = mount(get_asgi_application(), "/jobs", jobs)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        print(listener.getsockname()[1], flush=True)
        asyncio.run(uvicorn.Server(uvicorn.Config(program, log_level="warning")).serve([listener]))


main()
