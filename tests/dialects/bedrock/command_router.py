"""Commands for tests: requests go through the parser to the command router, without a socket."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

from windlass.dialects.bedrock.client import BedrockClient
from windlass.dialects.bedrock.command_router import CommandRouter
from windlass.dialects.bedrock.wire import BedrockReader, BedrockRequest, Reply, escape
from windlass.service import Service
from windlass.service.batcher import RequestBatcher
from windlass.settings import BODY_MAX
from windlass.web.listener.bounds import Bounds


class CommandResult(NamedTuple):
    line: str
    text: str
    reply: Reply

    @property
    def body(self) -> Any:
        return json.loads(self.text)


def make_request(verb: str, given: dict[str, Any], raw: dict[str, str] | None = None) -> BedrockRequest:
    lines = [verb, *(f"{name}: {escape(_format_value(value))}" for name, value in given.items() if value is not None)]
    lines += [f"{name}: {value}" for name, value in (raw or {}).items()]
    reader = BedrockReader(Bounds(header_bytes_max=BODY_MAX))
    reader.feed(("\r\n".join(lines) + "\r\n\r\n").encode())
    request = reader.next()
    assert request is not None
    return request


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, dict | list) else str(value)


class BedrockCommands:
    """Runs commands by verb. The helper methods expect 200 OK."""

    def __init__(self, service: Service, **options: Any) -> None:
        self.service = service
        self.router = CommandRouter(service, RequestBatcher(service), **options)
        self.client = BedrockClient("127.0.0.1")

    async def __call__(self, verb: str, *, raw: dict[str, str] | None = None, **given: Any) -> CommandResult:
        reply = await self.router.answer(make_request(verb, given, raw), self.client)
        return CommandResult(f"{reply.status} {reply.reason}", reply.body.decode(), reply)

    async def ok(self, verb: str, **given: Any) -> CommandResult:
        result = await self(verb, **given)
        assert result.line == "200 OK", result
        return result

    async def create(self, name: str = "job", **given: Any) -> int:
        return int((await self.ok("CreateJob", name=name, **given)).body["jobID"])

    async def get(self, name: str = "*", **given: Any) -> dict[str, Any]:
        return dict((await self.ok("GetJob", name=name, **given)).body)

    async def query(self, number: int) -> dict[str, Any]:
        return dict((await self.ok("QueryJob", jobID=number)).body)

    async def state(self, number: int) -> str:
        """Return the state, or `gone` if the job does not exist."""
        result = await self("QueryJob", jobID=number)
        if result.line == "404 No job with this jobID":
            return "gone"
        return str(result.body["state"])

    async def running(self, name: str = "job", **given: Any) -> int:
        number = await self.create(name, **given)
        mocked = {"mockRequest": ""} if "mockRequest" in given else {}
        assert (await self.get(name, **mocked))["jobID"] == number
        return number

    async def parent_and_child(self, **given: Any) -> tuple[int, int]:
        """Create a running parent and its child, which is held."""
        parent = await self.running("parent")
        return parent, await self.create("child", parentJobID=parent, **given)

    async def row(self, number: int) -> dict[str, Any]:
        """Read a job with Query. The row includes the parent."""
        query = f"select * from jobs where jobID = {number};"  # noqa: S608
        result = await self.ok("Query", query=query, format="json")
        (row,) = result.body["rows"]
        return dict(zip(result.body["headers"], row, strict=True))

    async def wait_for_takers(self, count: int) -> None:
        """Wait until this number of takers wait in the engine."""
        while (await self.service.stats(["bedrock"]))[0].waiting_takers < count:  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    def advance(self, seconds: float) -> None:
        self.service.store.clock_offset_ms += int(seconds * 1000)
