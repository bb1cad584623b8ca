"""Random commands against a small model: compares every status line, and all rows after every command."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.dialects.bedrock.command_router import BedrockCommands
from tests.dialects.bedrock.model import Model
from tests.support.engine_process import EngineProcess
from tests.support.profiles import examples
from tests.support.stores import make_store
from windlass.service import Service

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)

NUMBERS = st.integers(1, 5)
NAMES = st.sampled_from("ab")
DATA = st.dictionaries(st.sampled_from("xy"), st.integers(0, 3), max_size=2)
COMMANDS = st.one_of(
    st.tuples(
        st.just("create"), NAMES, st.sampled_from([0, 500, 1000]), st.booleans(), st.booleans(), st.integers(0, 3)
    ),
    st.tuples(st.just("get"), st.sampled_from("ab*")),
    st.tuples(st.just("finish"), NUMBERS, st.none() | DATA),
    st.tuples(st.just("retry"), NUMBERS, st.sampled_from(["", "a", "b"])),
    st.tuples(st.just("fail"), NUMBERS),
    st.tuples(st.just("cancel"), NUMBERS),
    st.tuples(st.just("delete"), NUMBERS),
    st.tuples(st.just("update"), NUMBERS, DATA),
)


FAMILY = (  # so that there is one at once
    ("create", "a", 500, False, False, 0),
    ("get", "a"),
    ("create", "b", 500, False, False, 1),
    ("create", "b", 500, True, False, 1),
)


@settings(
    max_examples=examples(usual=30, deep=300),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(COMMANDS, min_size=5, max_size=40))
@example([("finish", 1, None), ("get", "b"), ("get", "b"), ("finish", 3, None)])  # which was counted
@example([("finish", 1, None), ("cancel", 2), ("delete", 3)])  # the parent waits in vain
@example([("finish", 1, None), ("delete", 2), ("delete", 3)])  # the parent has no children left
def test_random_commands(engine: EngineProcess, commands: list[tuple[Any, ...]]) -> None:
    asyncio.run(_compare(engine, commands))


async def _compare(engine: EngineProcess, commands: list[tuple[Any, ...]]) -> None:
    async with make_store(engine) as store:
        bedrock, model = BedrockCommands(Service(store)), Model()
        for command in (*FAMILY, *commands):
            bedrock.advance(1.5)  # so that whole seconds order what is due
            expected, answered = await _both(bedrock, model, command)
            assert answered == expected, command
            await _same_rows(bedrock, model)
        found = {one.code for one in (await bedrock.service.doctor()).findings}
        assert found - {"no_persistence", "loops_behind"} == model.findings()
        await bedrock.router.close()


async def _both(bedrock: BedrockCommands, model: Model, command: tuple[Any, ...]) -> tuple[Any, Any]:
    verb, *rest = command
    if verb == "create":
        name, priority, retries, repeats, parent = rest
        repeats = repeats and not retries
        more: dict[str, Any] = {"retryAfter": "+1 HOUR"} if retries else {}
        more |= {"repeat": "FINISHED, -0 SECONDS"} if repeats else {}
        result = await bedrock("CreateJob", name=name, jobPriority=priority, parentJobID=parent, **more)
        return model.create(name, priority, retries, repeats, parent), result.line
    if verb == "get":
        result = await bedrock("GetJob", name=rest[0])
        return model.get(rest[0]), (result.line, result.body["jobID"] if result.text else 0)
    if verb == "finish":
        number, data = rest
        more = {} if data is None else {"data": data}
        return model.finish(number, data), (await bedrock("FinishJob", jobID=number, **more)).line
    if verb == "retry":
        number, name = rest
        return model.retry(number, name), (await bedrock("RetryJob", jobID=number, name=name, ignoreRepeat=True)).line
    if verb == "update":
        number, data = rest
        return model.update(number, data), (await bedrock("UpdateJob", jobID=number, data=data)).line
    result = await bedrock({"fail": "FailJob", "cancel": "CancelJob", "delete": "DeleteJob"}[verb], jobID=rest[0])
    return getattr(model, verb)(rest[0]), result.line


async def _same_rows(bedrock: BedrockCommands, model: Model) -> None:
    result = await bedrock.ok("Query", query="select jobID, name, state, data, priority, parentJobID from jobs;")
    expected = [
        [row.number, row.name, row.state, row.data | ({"retryAfterCount": row.count} if row.count else {}),
         row.priority, row.parent]
        for row in sorted(model.rows.values(), key=lambda one: one.number)
    ]  # fmt: skip
    assert sorted(result.body, key=lambda row: int(row[0])) == expected
