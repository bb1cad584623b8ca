"""Any MessagePack value passes through LightJQ unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dialects.lightjq.lightjq_client import QUEUE
from tests.support.engine_process import EngineProcess
from tests.support.stores import make_store
from tests.support.threaded_server import threaded_server
from windlass.core.ids import parse_id
from windlass.core.operations import Take
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[httpx.Client, Service]]:
    with EngineProcess("valkey") as engine:
        store = make_store(engine)
        beside = Store(parse_url(engine.unix_url), namespace=store.namespace, is_test=True)
        with (
            threaded_server(store, Settings(port=0, bedrock_port=None, roles="api")) as url,
            httpx.Client(base_url=f"{url}/lightjq") as client,
        ):
            yield client, Service(beside)
        beside.close_sync()


KEYS = st.one_of(st.text(max_size=8), st.integers(-(2**63), 2**64 - 1), st.binary(max_size=4), st.booleans())
VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False), st.text(), st.binary(),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)  # fmt: skip


@settings(
    max_examples=25, deadline=None, derandomize=True,
)  # fmt: skip
@given(argument=st.dictionaries(st.text(max_size=8), VALUES, max_size=4), result=VALUES, error=VALUES)
def test_values_survive_both_ways(
    served: tuple[httpx.Client, Service], argument: dict[str, Any], result: Any, error: Any
) -> None:
    """Values stay equal byte for byte: text and bytes stay distinct, integers keep 64 bits."""
    client, service = served

    def ask(method: str, path: str, body: Any = None, worker: str = "") -> httpx.Response:
        content = None if body is None else msgspec.msgpack.encode(body)
        headers = {"content-type": "application/msgpack", "worker-id": worker}
        return client.request(method, path, content=content, headers=headers)

    worker = msgspec.msgpack.decode(ask("POST", "/worker", {"name": "w", "max_jobs": 2}).content)["worker_id"]
    fields = {"argument": argument, "keep_result": True, "max_retry": 0}
    ids = [
        msgspec.msgpack.decode(ask("POST", "/job", {"name": name, **fields}).content)["job_id"] for name in ("a", "b")
    ]
    jobs = service.take(Take(queues=(QUEUE,), most=2, worker=parse_id(worker))).wait().jobs
    assert [job.payload.data for job in jobs] == [msgspec.msgpack.encode(argument)] * 2
    success = {"type": "success", "job_id": ids[0], "result": result}
    failure = {"type": "failure", "job_id": ids[1], "reason": "other", "should_retry": True, "message": "m"}
    assert ask("POST", "/done", success, worker).status_code == 204
    assert ask("POST", "/done", failure | {"error": error}, worker).status_code == 204
    done, failed = (ask("GET", f"/job/{job_id}").content for job_id in ids)
    assert msgspec.msgpack.encode({"result": result})[1:] in done
    assert msgspec.msgpack.encode({"error": error})[1:] in failed
    ask("DELETE", "/worker", worker=worker)
