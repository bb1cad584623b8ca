"""Tests of the logs of a server: they name clients and requests, but no token, password, key or content of a job."""

from __future__ import annotations

import socket
from pathlib import Path

import httpx
import pytest

from tests.support.server_process import ServerProcess, store_options, wait_until
from windlass.core.access.tokens import NewToken, Role, parse_token
from windlass.core.job import Blob, Callback, NewJob
from windlass.service import Service
from windlass.store.store import Store

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)

STATIC = "static-token-of-the-settings"
KEY = "signing-key-of-the-callbacks"
PAYLOAD = "what-is-in-a-job"
PASSWORD = "password-of-a-url"  # noqa: S105 (must not be logged)
HEADER = "header-of-a-callback"


def _send_everything(server: ServerProcess, token: str) -> None:
    body = {"queue": "q", "name": "n", "payload": {"a": PAYLOAD}}
    with httpx.Client(base_url=server.url, timeout=30) as client:
        for shown in (STATIC, token, f"{token[:-1]}x", "nonsense-that-was-shown"):
            bearer = {"authorization": f"Bearer {shown}"}
            client.post("/api/v1/jobs", json=body, headers=bearer)
            client.get("/api/v1/info", params={"token": shown}, headers=bearer)
            client.post("/api/v1/jobs", content=b'{"payload": "' + PAYLOAD.encode(), headers=bearer)
            client.get("/queues", headers={"cookie": f"windlass_session={shown}.1.x", "accept": "text/html"})
            client.post("/login", data={"token": shown})
            client.get(f"/api/v1/jobs/{PAYLOAD[:4]}", headers=bearer)
        order = {"url": f"http://me:{PASSWORD}@127.0.0.1:1/x?signature={PASSWORD}", "aggr_id": "a", "aggr_limit": 1,
                 "callback_url": "http://127.0.0.1:1/", "max_retries": 1, "extra": PAYLOAD}  # fmt: skip
        assert client.post("/downloader/download", json=order, headers={"authorization": f"Bearer {STATIC}"}).is_success


def _talk_bedrock(server: ServerProcess) -> None:
    with socket.create_connection(server.bedrock, timeout=30) as talk:
        for shown in ("nonsense-that-was-shown", STATIC):
            lines = ("CreateJob", f"Authorization: Bearer {shown}", "name: a", f'data: {{"a":"{PAYLOAD}"}}', "", "")
            talk.sendall("\r\n".join(lines).encode())
            assert talk.recv(65536)
        talk.sendall(f"Nonsense\r\nAuthorization: Bearer {STATIC}\r\nname: {PAYLOAD}\r\n\r\n".encode())
        assert talk.recv(65536)


def test_secrets_are_not_logged(service: Service, store: Store, tmp_path: Path) -> None:
    token = service.create_token(NewToken(name="me", roles=frozenset({Role.ADMIN}))).wait().text
    callback = Callback(url="http://127.0.0.1:1/gone", headers=(("x-secret", HEADER),))
    made = NewJob(queue="q", name="n", payload=Blob(f'"{PAYLOAD}"'.encode()), callback=callback)
    service.cancel([result.id for result in service.enqueue([made]).wait() if not isinstance(result, Exception)]).wait()
    settings = {"token": STATIC, "access_log": "1", "callback_keys": KEY, "download_dir": str(tmp_path)}
    with ServerProcess(store_options(store), **settings) as server:
        _send_everything(server, token)
        _talk_bedrock(server)
        wait_until(lambda: "Callback" in server.errors and "/login" in server.errors)
        server.signal()
        assert server.wait() == 0
        output = server.errors + server.output
    secrets = {STATIC, parse_token(token).secret, token, KEY, PAYLOAD, PASSWORD, HEADER, "nonsense-that-was-shown"}
    assert {secret for secret in secrets if secret in output} == set()
