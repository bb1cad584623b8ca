"""docs/callbacks.md: its tasks and its receiver, with a server between them."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.sdk.conftest import at_work
from tests.support.threaded_server import threaded_server
from windlass import BadSignature, Windlass, verify_callback
from windlass.core.callbacks.signing import sign_callback
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

pytestmark = pytest.mark.anyio
DOCUMENT = Path(__file__).parents[2] / "docs" / "callbacks.md"
DELIVERING, RECEIVING, _ = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
HOOK = "https://example.org/hook"
(KEY,) = re.findall(r'^KEYS = \["(.*)"\]$', RECEIVING, re.MULTILINE)


@contextlib.contextmanager
def receiving() -> Iterator[tuple[str, set[str]]]:
    names: dict[str, Any] = {}
    exec(RECEIVING.replace("8081", "0"), names)  # noqa: S102
    server = names["server"]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook", names["seen"]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def _until(service: Service, *, given_up: bool, count: int) -> None:
    while len((await service.callbacks(given_up=given_up)).callbacks) != count:  # noqa: ASYNC110 (another process's news)
        await asyncio.sleep(0.005)


async def attempts(url: str) -> dict[str, float]:
    async with httpx.AsyncClient() as client:
        text = (await client.get(f"{url}/metrics")).text
    metrics = {metric.name: metric for metric in text_string_to_metric_families(text)}
    return {sample.labels["outcome"]: sample.value for sample in metrics["windlass_callback_attempts"].samples}


async def test_what_is_shown_works(
    app: Windlass, store: Store, engine_service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(port=0, bedrock_port=None, callback_keys=f"{KEY}, another key without a receiver")
    with receiving() as (url, seen), threaded_server(store.clone(), settings) as server:
        names: dict[str, Any] = {"app": app}
        exec(DELIVERING.replace(HOOK, url).replace("app = Windlass()\n", ""), names)  # noqa: S102
        async with asyncio.timeout(60), at_work(app, queues=["mail"]):
            job = await names["send_mail"].aenqueue(8)
            await job
            while not seen:  # noqa: ASYNC110 (another thread's news)
                await asyncio.sleep(0.005)
            await _until(engine_service, given_up=False, count=0)
        assert len(seen) == 1
        assert await attempts(server) == {"delivered": 1, "failed": 0, "unknown_type": 0, "unknown_topic": 0}
    told = capsys.readouterr().out
    assert f'"id":"{job.id}"' in told
    assert '"payload":{"order_id":8}' in told


async def test_a_receiver_with_another_key_refuses(app: Windlass, store: Store, engine_service: Service) -> None:
    settings = Settings(port=0, bedrock_port=None, callback_keys="not the key of the receiver", callback_attempts=1)
    with receiving() as (url, seen), threaded_server(store.clone(), settings):

        @app.task(queue="mail", callback=url)
        async def send() -> None: ...

        async with asyncio.timeout(60), at_work(app, queues=["mail"]):
            await (await send.aenqueue())
            await _until(engine_service, given_up=True, count=1)
    (pending,) = (await engine_service.callbacks(given_up=True)).callbacks
    assert "answered 401" in pending.error
    assert seen == set()


def test_a_callback_is_verified_within_its_time() -> None:
    headers = {"windlass-callback-id": "x-1", "WINDLASS-SIGNATURE": sign_callback((KEY,), 1_000, "x-1", b"{}")}
    assert verify_callback(b"{}", headers, KEY, now_s=1_299) == "x-1"
    assert verify_callback(b"{}", headers, ["other", KEY], now_s=701) == "x-1"
    for body, keys, now_s in ((b"{}", KEY, 1_301), (b"{}", KEY, 699), (b"[]", KEY, 1_000), (b"{}", "other", 1_000)):
        with pytest.raises(BadSignature):
            verify_callback(body, headers, keys, now_s=now_s)
    with pytest.raises(BadSignature):
        verify_callback(b"{}", {}, KEY)
