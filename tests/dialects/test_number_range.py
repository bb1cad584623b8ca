"""Numbers that no float can hold, as JSON's 1e999, and infinities and NaN of MessagePack. Parameters and values in JSON
refuse them, in the words of each dialect; values in MessagePack keep them, and never become null."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest

from tests.dialects.bedrock.command_router import BedrockCommands
from tests.dialects.lightjq.lightjq_client import LightJqClient
from tests.dialects.stdio.processor_client import IDENTITY
from windlass.core.errors import BadInput
from windlass.core.job import Blob, Codec, NewJob
from windlass.core.operations import Take
from windlass.dialects.stdio import jobs as processor_jobs
from windlass.dialects.stdio.messages import MessageReader, ProcessorOptions
from windlass.server.server import ROUTES
from windlass.service import Service
from windlass.web.app.router import Router

served = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
ID = "01890a5d-ac96-774b-bcce-b302099a8057"
ORDER = '"url": "http://x/", "aggr_id": "a", "callback_url": "http://x/"'
JOB = '"queue": "q", "name": "n"'
TOO_LARGE = "a number that is too large"
OUT_OF_RANGE = "Number out of range"
HUGE = ["1e999", "-1e999", "1E+400", "1" * 310 + ".0", "1" * 250 + "e99"]
# Parameters: path, body, part of the refusal.
PARAMETERS = [
    ("/api/v1/jobs", f'{{{JOB}, "priority": 1e999}}', OUT_OF_RANGE),
    ("/api/v1/jobs", f'{{{JOB}, "retry": {{"factor": 1e999}}}}', OUT_OF_RANGE),
    ("/api/v1/jobs", f'{{{JOB}, "retry": {{"factor": NaN}}}}', "not valid JSON"),
    ("/api/v1/jobs", f'{{{JOB}, "retry": {{"jitter": Infinity}}}}', "not valid JSON"),
    ("/api/v1/take", '{"queues": ["q"], "wait_ms": 1e999}', OUT_OF_RANGE),
    (f"/api/v1/jobs/{ID}/progress", '{"token": 1, "progress": 1e999}', OUT_OF_RANGE),
    ("/jobber/queue", '{"type": "t", "visibility_timeout": 1e999}', OUT_OF_RANGE),
    ("/jobber/queue", '{"type": "t", "max_attempts": 1e999}', OUT_OF_RANGE),
    ("/downloader/download", f'{{{ORDER}, "aggr_limit": 1e999}}', OUT_OF_RANGE),
    ("/downloader/download", f'{{{ORDER}, "aggr_limit": 1, "download_timeout": 1e999}}', OUT_OF_RANGE),
    ("/downloader/download", f'{{{ORDER}, "aggr_limit": NaN}}', "not valid JSON"),
]
# Values that are stored: path, body with a place for the number, part of the refusal.
VALUES = [
    ("/api/v1/jobs", f'{{{JOB}, "payload": {{"a": [%s]}}}}', f"payload contains {TOO_LARGE}"),
    ("/api/v1/jobs", f'{{{JOB}, "unique": "u", "payload": %s}}', f"payload contains {TOO_LARGE}"),
    ("/api/v1/jobs:batch", f'{{"items": [{{{JOB}, "payload": %s}}]}}', f"payload contains {TOO_LARGE}"),
    ("/api/v1/jobs:batch", f'{{"items": [{{{JOB}, "lane": "l", "payload": %s}}]}}', f"payload contains {TOO_LARGE}"),
    ("/api/v1/jobs:whole", f'{{"items": [{{{JOB}, "payload": %s}}]}}', f"payload contains {TOO_LARGE}"),
    (f"/api/v1/jobs/{ID}/finish", '{"token": 1, "result": [%s]}', f"result contains {TOO_LARGE}"),
    (f"/api/v1/jobs/{ID}/fail", '{"token": 1, "error": {"a": %s}}', f"error contains {TOO_LARGE}"),
    (f"/api/v1/jobs/{ID}/emit", '{"token": 1, "value": %s}', f"value contains {TOO_LARGE}"),
    (f"/api/v1/jobs/{ID}/progress", '{"token": 1, "payload": %s}', f"payload contains {TOO_LARGE}"),
    ("/jobber/queue", '{"type": "t", "payload": {"a": %s}}', f"payload contains {TOO_LARGE}"),
]  # fmt: skip


class TestHttp:
    pytestmark = served

    @pytest.mark.parametrize(("path", "body", "said"), PARAMETERS, ids=lambda part: str(part)[:60])
    async def test_a_parameter_is_refused(self, client: httpx.AsyncClient, path: str, body: str, said: str) -> None:
        answer = await client.post(path, content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 400, answer.text
        assert said in answer.text

    async def test_a_value_in_json_is_refused(self, client: httpx.AsyncClient, service: Service) -> None:
        for path, body, said in VALUES:
            for number in HUGE:
                content = body % number
                answer = await client.post(path, content=content, headers={"content-type": "application/json"})
                assert (answer.status_code, said in answer.text) == (400, True), (content[:200], answer.text)
        assert await service.queues() == []

    async def test_an_ordinary_number_is_kept_as_it_was_written(self, client: httpx.AsyncClient) -> None:
        for number in ("1e308", "-1.50e+3", "1e-999", "0e999", "1" * 60, '"1e999"', '"0e1234"'):
            body = f'{{{JOB}, "payload": {{"a":{number}}}}}'
            answer = await client.post("/api/v1/jobs", content=body, headers={"content-type": "application/json"})
            assert answer.status_code == 201, answer.text
            kept = await client.get(f"/api/v1/jobs/{answer.json()['id']}")
            assert f'"payload":{{"a":{number}}}' in kept.text

    async def test_a_line_of_a_stream_is_refused_by_itself(self, client: httpx.AsyncClient) -> None:
        lines = f'{{{JOB}, "payload": 1}}\n{{{JOB}, "payload": 1e999}}\n'
        answer = await client.post(
            "/api/v1/jobs:stream", content=lines, headers={"content-type": "application/x-ndjson"}
        )
        assert TOO_LARGE in answer.text, answer.text

    async def test_messagepack_keeps_it_and_json_does_not_make_null_of_it(
        self, client: httpx.AsyncClient, lightjq: LightJqClient, service: Service
    ) -> None:
        for number in (math.inf, -math.inf, math.nan):
            payload = msgspec.msgpack.encode({"a": [number, 1.5]})
            body = msgspec.msgpack.encode({"queue": "q", "name": "n", "payload": msgspec.Raw(payload)})
            answer = await client.post("/api/v1/jobs", content=body, headers={"content-type": "application/msgpack"})
            path = f"/api/v1/jobs/{msgspec.msgpack.decode(answer.content)['id']}"
            kept = (await client.get(path, headers={"accept": "application/json"})).json()["job"]
            assert "payload" not in kept
            assert (base64.b64decode(kept["payload_base64"]), kept["payload_codec"]) == (payload, "msgpack")
            packed = msgspec.msgpack.decode((await client.get(path, headers={"accept": "application/msgpack"})).content)
            assert repr(packed["job"]["payload"]) == repr({"a": [number, 1.5]})
        pushed = await lightjq.push("n", {"a": math.inf})
        [shown] = [one for one in await _pages_of_lightjq(client) if one["id"] == pushed]
        assert "argument" not in shown
        [job] = (await service.take(Take(queues=("lightjq",)))).jobs
        assert msgspec.msgpack.decode(job.payload.data) == {"a": math.inf}


async def _pages_of_lightjq(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        answer = await client.get(f"/lightjq/ui/jobs?cursor={cursor}", headers={"accept": "application/json"})
        found += answer.json()["jobs"]
        cursor = answer.json()["cursor"]
        if not cursor:
            return found


class TestBedrock:
    pytestmark = served

    @pytest.mark.parametrize("number", [*HUGE, "NaN", "-Infinity"])
    async def test_data_is_refused_in_its_words(self, bedrock: BedrockCommands, number: str) -> None:
        data = f'{{"a": {number}}}'
        assert (await bedrock("CreateJob", name="n", data=data)).line == "402 Data is not a valid JSON Object"
        jobs = f'[{{"name": "n", "data": {data}}}]'
        assert (await bedrock("CreateJobs", jobs=jobs)).line == "401 Invalid JSON"
        created = await bedrock.running("n")
        for command in ("UpdateJob", "RetryJob", "FinishJob"):
            said = await bedrock(command, jobID=created, data=data, delay="1")
            assert said.line == "402 Data is not a valid JSON Object", command


@pytest.mark.parametrize("number", HUGE)
def test_a_line_of_the_processor_is_refused_in_its_words(number: str) -> None:
    line = f'{{"topic": "default/job_queue/add_job", "payload": {{"uuid": "u", "queue_name": "q", "args": {number}}}}}'
    with pytest.raises(BadInput, match=OUT_OF_RANGE):
        MessageReader(IDENTITY, ProcessorOptions()).read(line.encode(), 0)


def test_the_processor_hands_on_what_json_cannot_hold_as_base64(service: Service) -> None:
    payload = Blob(msgspec.msgpack.encode({"a": math.nan}), Codec.MSGPACK)
    made = service.enqueue([NewJob(queue="q", name="n", payload=payload)]).one().wait()
    job = service.job([made.id]).one().wait().job
    shown = msgspec.json.decode(processor_jobs.encode_assignment(job))
    assert (shown["args"], base64.b64decode(shown["args_base64"])) == (None, payload.data)


# Every number that a route takes has bounds: an infinity of MessagePack, or of a query, does not fit.


def _numbers(schema: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, dict):
        if schema.get("type") == "number":
            yield path, schema
        for name, inner in schema.items():
            yield from _numbers(inner, f"{path}.{name}")
    elif isinstance(schema, list):
        for inner in schema:
            yield from _numbers(inner, path)


def test_numbers_of_requests_have_bounds() -> None:
    taken = [one for route in Router(ROUTES).routes for one in (route.body, route.query) if one is not None]
    _, components = msgspec.json.schema_components(taken)
    found = dict(_numbers(components, "$"))
    assert found
    without = {
        path
        for path, schema in found.items()
        if not {"minimum", "exclusiveMinimum"} & set(schema) or not {"maximum", "exclusiveMaximum"} & set(schema)
    }
    # Compared with payloads: check_matcher refuses them. The downloader reads any value, and checks it itself.
    checked = ("OrderForm", "AggregationForm", "ConditionShape", ".additionalProperties.")
    assert {path for path in without if not any(word in path for word in checked)} == set()
