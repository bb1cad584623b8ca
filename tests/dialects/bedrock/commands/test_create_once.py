"""The parameters of a CreateJob are read once, whatever its path and however often its decision is repeated."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.dialects.bedrock.client import connect
from windlass.dialects.bedrock import data
from windlass.dialects.bedrock.commands.create import CreateCommands
from windlass.server import Server

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts the times that each text of `data` is parsed."""
    counts: Counter[str] = Counter()
    parse = data.parse_value

    def count(text: str, raw: str) -> bytes:
        counts[text] += 1
        return parse(text, raw)

    monkeypatch.setattr(data, "parse_value", count)
    return counts


async def test_every_kind_of_job(running: Server, parsed: Counter[str]) -> None:
    async with connect(running.bedrock) as client:
        assert (await client.call("CreateJob", name="first", data='{"n":0}')).json["jobID"] == 1
        await client.call("GetJob", name="first")
        kinds: list[dict[str, object]] = [
            {}, {"mockRequest": ""}, {"retryAfter": "+1 HOUR"}, {"unique": "true"}, {"unique": "true"},
            {"parentJobID": 1}, {"parentJobID": 77}, {"repeat": "SOON"}, {"unique": "true", "repeat": "SOON"},
        ]  # fmt: skip
        lines = [
            (await client.call("CreateJob", name="job", data=f'{{"n":{at}}}', **given)).line
            for at, given in enumerate(kinds, 1)
        ]
    assert lines == ["200 OK"] * 6 + ["404 parentJobID does not exist"] + ["402 Malformed repeat"] * 2
    assert parsed == {f'{{"n":{at}}}': 1 for at in range(len(kinds) + 1)}


async def test_several_jobs(running: Server, parsed: Counter[str]) -> None:
    async with connect(running.bedrock) as client:
        given = '[{"name":"a","data":{"n":1}},{"name":"b","data":{"n":2},"unique":true}]'
        assert (await client.call("CreateJobs", jobs=given)).json == {"jobIDs": [1, 2]}
    assert parsed == {'{"n":1}': 1, '{"n":2}': 1}


async def test_repeated_decisions(running: Server, parsed: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many clients that create the same unique job, one succeeds at first. The others decide again."""
    decisions = 0
    find_parents = CreateCommands._find_parents

    async def count(*args: Any) -> None:
        nonlocal decisions
        decisions += 1
        await find_parents(*args)

    monkeypatch.setattr(CreateCommands, "_find_parents", count)

    async def create(at: int) -> int:
        async with connect(running.bedrock) as client:
            return int((await client.call("CreateJob", name="only", unique="true", data=f'{{"n":{at}}}')).json["jobID"])

    numbers = await asyncio.gather(*(create(at) for at in range(20)))
    assert len(set(numbers)) == 1
    assert decisions > 20
    assert parsed == {f'{{"n":{at}}}': 1 for at in range(20)}
