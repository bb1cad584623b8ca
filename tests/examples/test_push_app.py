"""The example of a push worker: a server pushes jobs to it and receives their results."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

import httpx
import msgspec
import pytest

from tests.support.engine_process import EngineProcess
from tests.support.stores import make_store
from windlass.server import open_server
from windlass.service import Service
from windlass.settings import Settings

pytestmark = pytest.mark.anyio
EXAMPLES = Path(__file__).parents[2] / "examples"
HEADERS = {"content-type": "application/msgpack", "accept": "application/msgpack"}


async def test_the_worker_greets_and_shouts(engine: EngineProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    async with (
        open_server(make_store(engine), Settings(port=0, bedrock_port=None, roles="api")) as server,
        asyncio.timeout(60),
    ):
        monkeypatch.setenv("MASTER", server.url + "/lightjq")
        monkeypatch.setenv("ME", f"http://127.0.0.1:{port}")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "uvicorn",
            "push_app:worker",
            "--port",
            str(port),
            "--log-level",
            "warning",
            cwd=EXAMPLES,
        )
        try:
            async with httpx.AsyncClient(base_url=server.url + "/lightjq", headers=HEADERS, timeout=60) as client:
                assert await _result(client, "greet", {"name": "world"}) == "Hello, world!"
                assert await _result(client, "shout", {"text": "aha"}) == "AHA"
        finally:
            process.terminate()
            await process.wait()
        assert await Service(server.service.store).workers() == []


async def _result(client: httpx.AsyncClient, name: str, argument: dict[str, str]) -> object:
    body = msgspec.msgpack.encode({"name": name, "argument": argument, "keep_result": True})
    made = await client.post("/job", content=body)
    job_id = msgspec.msgpack.decode(made.content)["job_id"]
    ended = await client.get(f"/job/{job_id}/polling", params={"timeout": 20})
    return msgspec.msgpack.decode(ended.content)["result"]
