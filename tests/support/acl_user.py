"""Restricted users of a private engine: real users of its ACL, with the rules of a test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.support.engine_process import EngineProcess
from windlass.store.connection.endpoint import parse_url
from windlass.store.connection.sync_connection import SyncConnection
from windlass.store.topology.permissions import acl_rules

USER, PASSWORD = "worker", "pass"
LIMIT_S = 30.0


def send_command(engine: EngineProcess, *command: str) -> Any:
    """Send a command as the admin."""
    connection = SyncConnection.open(parse_url(engine.admin_url))
    try:
        return connection.call(*command)
    finally:
        connection.close()


def create_restricted_user(engine: EngineProcess, *more: str, namespace: str = "wl") -> str:
    """Return the URL of a user with the documented rights and the rules in `more`, which come last."""
    send_command(engine, "ACL", "SETUSER", USER, "reset", "on", f">{PASSWORD}", *acl_rules(namespace), *more)
    return f"unix://{USER}:{PASSWORD}@{engine.socket_path}?db=0"


def flush_engine(engine: EngineProcess) -> None:
    send_command(engine, "FLUSHALL")
    send_command(engine, "FUNCTION", "FLUSH")


async def wait_until(is_so: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(LIMIT_S):
            while not is_so():  # noqa: ASYNC110 (another process decides)
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"not within {LIMIT_S:g} s: {what}") from None
