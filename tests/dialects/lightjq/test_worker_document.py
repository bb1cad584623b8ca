"""The document of the worker API: real pushes follow it, the master acts on answers as it says, and a worker that is
generated from it works."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.server
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import jsonschema_rs
import msgspec
import pytest
import schemathesis

from tests.dialects.lightjq.test_push import Master, _free_port, worker_process
from tests.dialects.test_generated_clients import PROGRAMS, ROOT, _run, _types_of
from windlass import __version__
from windlass.core.job import Blob, Codec, NewJob
from windlass.service import Service
from windlass.wire.push.worker_document import build_worker_document

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
DOCUMENT = build_worker_document(__version__)
TYPESCRIPT = ROOT / "tests" / "generators" / "typescript_worker"


@pytest.fixture
async def master(client: httpx.AsyncClient) -> AsyncIterator[Master]:
    async with asyncio.timeout(60):
        yield Master(client)


def _as_json(value: Any) -> Any:
    """Return a value as a JSON validator knows it."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {str(key): _as_json(inner) for key, inner in value.items()}
    return [_as_json(inner) for inner in value] if isinstance(value, list) else value


class ValidatingWorker(http.server.ThreadingHTTPServer):
    """Worker that validates each push against a document, and answers with the next of its answers, then with 202."""

    daemon_threads = True

    def __init__(self, document: dict[str, Any], *answers: tuple[int, dict[str, str]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.operation = document["paths"]["/worker-job"]["post"]
        self.validator = jsonschema_rs.validator_for(
            document["components"]["schemas"]["PushedJob"], validate_formats=True
        )
        self.answers = list(answers)
        self.findings: list[str] = []
        self.jobs: list[dict[str, Any]] = []
        self.at_s: list[float] = []
        self.has_jobs = threading.Condition()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def wait_for(self, count: int) -> None:
        with self.has_jobs:
            assert self.has_jobs.wait_for(lambda: len(self.jobs) >= count, timeout=30), self.jobs

    def receive(self, path: str, headers: Any, body: bytes) -> tuple[int, dict[str, str]]:
        if path != "/worker-job":
            self.findings.append(f"path {path}")
        if headers["content-type"] not in self.operation["requestBody"]["content"]:
            self.findings.append(f"content-type {headers['content-type']}")
        for parameter in self.operation["parameters"]:
            value = headers[parameter["name"]]
            self.findings += _findings(jsonschema_rs.validator_for(parameter["schema"], validate_formats=True), value)
        job = msgspec.msgpack.decode(body)
        self.findings += _findings(self.validator, _as_json(job))
        with self.has_jobs:
            self.jobs.append(job)
            self.at_s.append(time.monotonic())
            self.has_jobs.notify_all()
            return self.answers.pop(0) if self.answers else (202, {})


def _findings(validator: Any, value: Any) -> list[str]:
    return [f"{error.message} in {value!r}" for error in validator.iter_errors(value)]


class _Handler(http.server.BaseHTTPRequestHandler):
    server: ValidatingWorker
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        status, headers = self.server.receive(self.path, self.headers, body)
        self.send_response(status)
        for name, value in {**headers, "Content-Length": "0"}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *args: Any) -> None: ...


@contextlib.contextmanager
def validating_worker(document: dict[str, Any], *answers: tuple[int, dict[str, str]]) -> Iterator[ValidatingWorker]:
    with ValidatingWorker(document, *answers) as worker:
        thread = threading.Thread(target=worker.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield worker
        worker.shutdown()
        thread.join()


async def _register(master: Master, worker: ValidatingWorker, max_jobs: int = 50) -> str:
    status, answer = await master.ask("POST", "/worker", {"name": "v", "max_jobs": max_jobs, "url": worker.url})
    assert status == 201, answer
    return str(answer["worker_id"])


FOREIGN = {
    "text": Blob(b'"hello"'), "list": Blob(b'[1, {"a": null}]'), "null": Blob(b"null"), "float": Blob(b"1.5"),
    "deep": Blob(b'{"a": {"b": {"c": [[[{"d": "\xc3\xbc"}]]]}}}'), "raw": Blob(b"\x00\xff{", Codec.RAW),
    "binary": Blob(msgspec.msgpack.encode({"b": b"\x00\xff"}), Codec.MSGPACK),
    "big": Blob(msgspec.msgpack.encode([2**64 - 1, -(2**63)]), Codec.MSGPACK),
    "keys": Blob(msgspec.msgpack.encode({1: {None: True}}), Codec.MSGPACK),
}  # fmt: skip


async def test_real_pushes_follow_the_document(master: Master, service: Service, client: httpx.AsyncClient) -> None:
    document = (await client.get("/lightjq/worker/openapi.json")).json()
    with validating_worker(document) as worker:
        worker_id = await _register(master, worker)
        await master.push("lightjq", {"text": "ü", "bin": b"\x00", "nested": [{"a": [None]}]})
        await master.push("quick", timeout=0.5)
        await service.enqueue([NewJob(queue="lightjq", name=name, payload=blob) for name, blob in FOREIGN.items()])
        await service.enqueue([NewJob(queue="lightjq", name="x" * 1020, timeout_ms=1_500)])
        await asyncio.to_thread(worker.wait_for, len(FOREIGN) + 3)
        assert worker.findings == []
        arguments = {job["name"]: job["argument"] for job in worker.jobs}
        assert arguments["lightjq"] == {"value": {"text": "ü", "bin": b"\x00", "nested": [{"a": [None]}]}}
        assert (arguments["text"], arguments["raw"], arguments["null"]) == ("hello", b"\x00\xff{", None)
        assert {job["timeout"] for job in worker.jobs} == {30, 0.5, 1.5}
        assert all(job["id"] == job["job_id"] for job in worker.jobs)
        job_id = next(job["id"] for job in worker.jobs if job["name"] == "lightjq")
        report = {"job_id": job_id, "type": "success", "result": 1}
        assert (await master.ask("POST", "/done", report, **{"worker-id": worker_id}))[0] == 204


async def test_the_validation_finds_what_is_wrong(master: Master, service: Service) -> None:
    document = build_worker_document("1")
    document["components"]["schemas"]["PushedJob"]["properties"]["timeout"] = {"type": "string"}
    document["paths"]["/worker-job"]["post"]["parameters"][0]["schema"] = {"type": "string", "maxLength": 3}
    with validating_worker(document) as worker:
        await _register(master, worker)
        await master.push("n")
        await asyncio.to_thread(worker.wait_for, 1)
        assert len(worker.findings) == 2


async def test_a_busy_worker_gets_the_job_again_after_its_pause(master: Master, service: Service) -> None:
    answers = [(429, {"Retry-After": "1"}), (429, {"Retry-After": "never"}), (429, {})]
    with validating_worker(DOCUMENT, *answers) as worker:
        worker_id = await _register(master, worker)
        job_id = await master.push("n")
        await asyncio.to_thread(worker.wait_for, 4)
        pauses_s = [later - sooner for sooner, later in zip(worker.at_s, worker.at_s[1:], strict=False)]
        assert pauses_s[0] >= 0.95
        assert all(pause_s >= 0.2 for pause_s in pauses_s[1:])
        report = {"job_id": job_id, "type": "success", "result": 1}
        assert (await master.ask("POST", "/done", report, **{"worker-id": worker_id}))[0] == 204
        ended = await master.end(job_id)
        assert (ended["status"], ended["retry_count"]) == ("done", 0)
        assert len(await service.workers()) == 1


async def test_it_is_served_and_the_same_as_yaml(client: httpx.AsyncClient) -> None:
    answer = await client.get("/lightjq/worker/openapi.json")
    assert answer.json() == DOCUMENT
    schemathesis.openapi.from_dict(answer.json()).validate()
    assert (await client.get("/lightjq/worker/openapi.yaml")).content == answer.content


async def test_a_push_worker_serves_it_too(service: Service, server_url: str) -> None:
    port = _free_port()
    async with worker_process(service, server_url, port=port), httpx.AsyncClient() as client:
        base = f"http://127.0.0.1:{port}"
        for path in ("/openapi.json", "/mounted/openapi.json"):
            answer = await client.get(base + path)
            assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
            assert answer.json() == DOCUMENT | {"servers": [{"url": base}]}
        assert (await client.post(base + "/openapi.json")).status_code == 404
        assert (await client.get(base + "/other")).status_code == 404


async def test_a_generated_worker_works(master: Master, service: Service, server_url: str, tmp_path: Any) -> None:
    """TypeScript whose requests, answers and reports have generated types, compiled strictly and run by Node."""
    _types_of("lightjq", tmp_path)
    (tmp_path / _types_of("worker", tmp_path)).rename(tmp_path / "worker_api.ts")
    for file in TYPESCRIPT.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "package.json").write_text('{"type": "module"}')
    options = ["--strict", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom", "--outDir", "out"]
    _run(tmp_path, PROGRAMS / "tsc", *options, "worker.ts", "node.d.ts")
    worker = await asyncio.create_subprocess_exec(
        "node", str(tmp_path / "out" / "worker.js"), f"{server_url}/lightjq", str(_free_port())
    )
    try:
        while not await service.workers():
            assert worker.returncode is None
            await asyncio.sleep(0.01)
        doubled = await master.end(await master.push("double", 21))  # its first push is answered with 429
        assert (doubled["status"], doubled["result"], doubled["retry_count"]) == ("done", 42, 0)
        value = {"text": "ü" * 40, "bin": b"\x00\xff", "list": [1.5, -3, 2**40, None, True, *range(20)]}
        echoed = await master.end(await master.push("echo", value))
        assert echoed["result"] == {"value": value}
        refused = await master.end(await master.push("refuse", max_retry=3))
        assert (refused["status"], refused["message"]) == ("error", "Error: it does not work")
        unknown = await master.push("unknown")
        assert (await master.end(await master.push("double", 1)))["result"] == 2
        assert await master.status(unknown) == "queued"
    finally:
        worker.terminate()
        await worker.wait()
