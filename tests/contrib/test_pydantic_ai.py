"""Agents of pydantic-ai as durable jobs, with pydantic-ai's own models for tests and real workers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelRetry, RunContext
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from tests.contrib import agent_app
from tests.support.engine_process import EngineProcess
from windlass import Backoff, Context, JobFailed, Windlass
from windlass.contrib.pydantic_ai import StepOptions, WindlassDurability, durable
from windlass.store.store import Store

pytestmark = pytest.mark.anyio
HERE = Path(__file__).parent
SECONDS = 60
AT_ONCE = Backoff(tries=3, base=0)


class Script:
    """Model that gives the next response of a list, and counts its requests."""

    def __init__(self, *responses: ModelResponse) -> None:
        self._responses = responses
        self.requests = 0
        self.model = FunctionModel(self._respond)

    def _respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.requests += 1
        return self._responses[sum(isinstance(message, ModelResponse) for message in messages)]


def calls(*parts: ToolCallPart) -> ModelResponse:
    return ModelResponse(parts=parts)


def text(content: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(content)])


def make_agent(script: Script, **options: Any) -> Agent[Context, str]:
    capability: WindlassDurability[Context] = WindlassDurability(**options)
    return Agent(script.model, deps_type=Context, name="support", capabilities=[capability])


async def steps_of(app: Windlass, handle: Any) -> list[str]:
    state = await (await app.aservice()).durable_states([handle.id_bytes]).one()
    return [step.name for step in state.steps]


async def test_requests_and_tool_calls_are_not_repeated(app: Windlass, working: Any) -> None:
    script = Script(
        calls(ToolCallPart("price", {"item": "rope"}, "a"), ToolCallPart("price", {"item": "bell"}, "b")), text("done")
    )
    agent = make_agent(script)
    asked, failures = [], [ValueError("the database is away")]

    @agent.tool_plain
    async def price(item: str) -> int:
        asked.append(item)
        return len(item)

    @app.task(retry=AT_ONCE, keep_result="1h")
    async def answer(ctx: Context) -> list[str]:
        with durable(ctx):
            result = await agent.run("What do they cost?", deps=ctx)
        if failures:
            raise failures.pop()
        return [result.output, result.run_id, str(ctx.attempt)]

    async with working(app):
        handle = await answer.aenqueue()
        assert await handle.aresult(SECONDS) == ["done", f"{handle.id}:1", "2"]
        steps = await steps_of(app, handle)
    assert (script.requests, sorted(asked)) == (2, ["bell", "rope"])
    assert sorted(steps) == ["support.price:a", "support.price:b", "support.request", "support.request#2"]


async def test_a_tool_that_waits_for_approval_suspends_the_job(app: Windlass, working: Any) -> None:
    script = Script(calls(ToolCallPart("refund", {"amount": 90}, "a")), text("refunded"))
    agent = make_agent(script)
    refunds = []

    @agent.tool(metadata={"windlass": False})
    async def refund(run: RunContext[Context], amount: int) -> str:
        is_approved = await run.deps.wait_for("approval", bool, timeout="3d")
        await run.deps.step("refund", pay_back, amount)
        return "done" if is_approved else "refused"

    async def pay_back(amount: int) -> None:
        refunds.append(amount)

    @app.task(keep_result="1h")
    async def answer(ctx: Context) -> str:
        with durable(ctx):
            return (await agent.run("I want my money back", deps=ctx)).output

    async with working(app):
        handle = await answer.aenqueue()
        await handle.asignal("approval", True)
        assert await handle.aresult(SECONDS) == "refunded"
    assert (script.requests, refunds) == (2, [90])


async def test_a_job_that_waits_in_a_tool_holds_nothing(app: Windlass, working: Any) -> None:
    script = Script(calls(ToolCallPart("approve", {}, "a")), text("yes"))
    agent = make_agent(script)
    waiting = asyncio.Event()

    @agent.tool(metadata={"windlass": False})
    async def approve(run: RunContext[Context]) -> bool:
        try:
            return await run.deps.wait_for("approval", bool)
        finally:
            waiting.set()

    @app.task(keep_result="1h")
    async def answer(ctx: Context) -> str:
        with durable(ctx):
            return (await agent.run("May I?", deps=ctx)).output

    async with working(app, concurrency=1):
        handle = await answer.aenqueue()
        await waiting.wait()
        other = await answer.aenqueue()  # has the slot, as the first job is suspended
        await other.asignal("approval", True)
        assert await other.aresult(SECONDS) == "yes"
        await handle.asignal("approval", True)
        assert await handle.aresult(SECONDS) == "yes"
    assert script.requests == 4


async def test_a_waiting_tool_does_not_cut_off_another_one(app: Windlass, working: Any) -> None:
    script = Script(calls(ToolCallPart("approve", {}, "a"), ToolCallPart("search", {}, "b")), text("found"))
    agent = make_agent(script)
    searches, is_waiting, is_found = [], asyncio.Event(), asyncio.Event()

    @agent.tool(metadata={"windlass": False})
    async def approve(run: RunContext[Context]) -> bool:
        is_waiting.set()
        return await run.deps.wait_for("approval", bool)

    @agent.tool_plain
    async def search() -> str:
        searches.append("begun")
        await is_waiting.wait()
        await asyncio.sleep(0)  # lets the other tool begin to wait
        searches.append("ended")
        is_found.set()
        return "page"

    @app.task(keep_result="1h")
    async def answer(ctx: Context) -> str:
        with durable(ctx):
            return (await agent.run("Search", deps=ctx)).output

    async with working(app):
        handle = await answer.aenqueue()
        await is_found.wait()
        await handle.asignal("approval", True)
        assert await handle.aresult(SECONDS) == "found"
    assert (script.requests, searches) == (2, ["begun", "ended"])


async def test_approvals_of_pydantic_ai(app: Windlass, working: Any) -> None:
    script = Script(calls(ToolCallPart("refund", {"amount": 90}, "a")), text("refunded"))
    capability: WindlassDurability[None] = WindlassDurability()
    agent = Agent(script.model, name="support", output_type=[str, DeferredToolRequests], capabilities=[capability])
    refunds = []

    @agent.tool_plain(requires_approval=True)
    async def refund(amount: int) -> str:
        refunds.append(amount)
        return "done"

    @app.task(keep_result="1h")
    async def answer(ctx: Context) -> str:
        with durable(ctx):
            result = await agent.run("I want my money back")
            while isinstance(result.output, DeferredToolRequests):
                answers = {
                    call.tool_call_id: await ctx.wait_for("approval", bool, key=call.tool_call_id)
                    for call in result.output.approvals
                }
                result = await agent.run(
                    message_history=result.all_messages(), deferred_tool_results=DeferredToolResults(approvals=answers)
                )
        return result.output

    async with working(app):
        handle = await answer.aenqueue()
        await handle.asignal("approval", True)
        assert await handle.aresult(SECONDS) == "refunded"
        steps = await steps_of(app, handle)
    assert steps == ["support.request", "approval:a", "support.refund:run2:a", "support.request:run2"]
    assert (script.requests, refunds) == (2, [90])


async def test_agents_run_side_by_side(app: Windlass, working: Any) -> None:
    script = Script(calls(ToolCallPart("double", {"number": 4}, "a")), text("eight"))
    agent = make_agent(script)
    failures = [ValueError("later")]

    @agent.tool_plain
    async def double(number: int) -> int:
        return 2 * number

    @app.task(retry=AT_ONCE, keep_result="1h")
    async def answer(ctx: Context) -> list[str]:
        with durable(ctx):
            results = await asyncio.gather(*(agent.run("4 + 4", deps=ctx) for _ in range(3)))
        if failures:
            raise failures.pop()
        return [result.output for result in results]

    async with working(app):
        handle = await answer.aenqueue()
        assert await handle.aresult(SECONDS) == ["eight"] * 3
        steps = await steps_of(app, handle)
    assert script.requests == 6
    assert {step for step in steps if "request" in step} == {
        f"support.request{run}{second}" for run in ("", ":run2", ":run3") for second in ("", "#2")
    }
    assert {step for step in steps if "double" in step} == {f"support.double{run}:a" for run in ("", ":run2", ":run3")}


async def test_later_blocks_count_the_runs_on(app: Windlass, working: Any) -> None:
    agent = make_agent(Script(text("yes")))

    @app.task(keep_result="1h")
    async def answer(ctx: Context) -> list[str]:
        found = []
        for _ in range(2):
            with durable(ctx):
                found.append((await agent.run("Again?", deps=ctx)).run_id)
        return found

    async with working(app):
        handle = await answer.aenqueue()
        assert await handle.aresult(SECONDS) == [f"{handle.id}:1", f"{handle.id}:2"]
        assert await steps_of(app, handle) == ["support.request", "support.request:run2"]


async def test_what_a_tool_tells_the_model_is_stored(app: Windlass, working: Any) -> None:
    again = calls(ToolCallPart("guess", {"number": 2}, "b"))
    script = Script(calls(ToolCallPart("guess", {"number": 1}, "a")), again, text("two"))
    agent = make_agent(script)
    guesses, failures = [], [ValueError("later")]

    @agent.tool_plain
    async def guess(number: int) -> str:
        guesses.append(number)
        if number == 1:
            raise ModelRetry("Guess higher")
        return "right"

    @app.task(retry=AT_ONCE, keep_result="1h")
    async def answer(ctx: Context) -> str:
        with durable(ctx):
            result = await agent.run("Guess", deps=ctx)
        if failures:
            raise failures.pop()
        return result.output

    async with working(app):
        assert await (await answer.aenqueue()).aresult(SECONDS) == "two"
    assert (script.requests, guesses) == (3, [1, 2])


async def test_steps_of_tools_have_options(app: Windlass, working: Any) -> None:
    script = Script(calls(ToolCallPart("fetch", {}, "a")), text("fetched"))
    agent = make_agent(script, tool=StepOptions(timeout="1h"))
    failures = [ConnectionError("reset"), ConnectionError("reset")]

    @agent.tool_plain(metadata={"windlass": StepOptions(retry=AT_ONCE)})
    async def fetch() -> str:
        if failures:
            raise failures.pop()
        return "page"

    @app.task(retry=1)
    async def answer(ctx: Context) -> str:
        with durable(ctx):
            return (await agent.run("Fetch", deps=ctx)).output

    async with working(app):
        assert await (await answer.aenqueue()).aresult(SECONDS) == "fetched"


async def test_events_are_handled_once(app: Windlass, working: Any) -> None:
    script = Script(calls(ToolCallPart("price", {}, "a")), text("5"))
    seen: list[str] = []

    async def handle_events(ctx: RunContext[Any], events: Any) -> None:
        seen.extend([event.event_kind async for event in events])

    agent = make_agent(script, event_stream_handler=handle_events)
    script.model.stream_function = streamed(script)
    failures = [ValueError("later")]

    @agent.tool_plain
    async def price() -> int:
        return 5

    @app.task(retry=AT_ONCE)
    async def answer(ctx: Context) -> str:
        with durable(ctx):
            result = await agent.run("Price?", deps=ctx)
        if failures:
            raise failures.pop()
        return result.output

    async with working(app):
        assert await (await answer.aenqueue()).aresult(SECONDS) == "5"
    assert seen.count("function_tool_result") == 1
    assert seen.count("part_start") == 2


async def test_events_go_to_the_stream_once(app: Windlass, working: Any) -> None:
    script = Script(calls(ToolCallPart("price", {}, "a")), text("5 €"))
    agent = make_agent(script, stream=True)
    script.model.stream_function = streamed(script)
    failures = [ValueError("later")]

    @agent.tool_plain
    async def price() -> int:
        return 5

    @app.task(retry=AT_ONCE, keep_result="1h")
    async def answer(ctx: Context) -> str:
        with durable(ctx):
            result = await agent.run("Price?", deps=ctx)
        if failures:
            raise failures.pop()
        return result.output

    async with working(app):
        handle = await answer.aenqueue()
        assert await handle.aresult(SECONDS) == "5 €"
        events = [item.value["event_kind"] async for item in handle.stream() if not item.is_new_attempt]
    assert events.count("part_start") == 2
    assert events.index("function_tool_call") < events.index("function_tool_result")
    assert events.count("function_tool_result") == 1
    with pytest.raises(UserError, match="one of them"):
        make_agent(script, stream=True, event_stream_handler=print)


def streamed(script: Script) -> Callable[..., Any]:
    """Return the stream function of a scripted model: each part at once."""
    from pydantic_ai.models.function import DeltaToolCall

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> Any:
        for part in script._respond(messages, info).parts:
            if isinstance(part, ToolCallPart):
                yield {0: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}
            elif isinstance(part, TextPart):
                yield part.content

    return stream


async def test_a_time_limit_counts_from_the_first_attempt(app: Windlass, working: Any) -> None:
    agent = make_agent(Script(text("in time")))

    @app.task(keep_result="1h")
    async def answer(ctx: Context) -> str:
        with durable(ctx):
            return (await agent.run("Now", deps=ctx, timeout=SECONDS)).output

    async with working(app):
        handle = await answer.aenqueue()
        assert await handle.aresult(SECONDS) == "in time"
        assert await steps_of(app, handle) == ["support.start", "support.request"]


async def test_outside_of_jobs_the_agent_is_a_plain_one() -> None:
    script = Script(calls(ToolCallPart("price", {}, "a")), text("5"))
    agent = make_agent(script)

    @agent.tool_plain
    async def price() -> int:
        return 5

    assert (await agent.run("Price?")).output == "5"


async def test_an_inline_call_makes_no_steps(app: Windlass) -> None:
    agent = Agent(TestModel(custom_output_text="hello"), name="support", capabilities=[WindlassDurability()])

    @app.task
    async def answer(ctx: Context) -> str:
        with durable(ctx):
            return (await agent.run("hi")).output

    assert await answer() == "hello"


async def test_a_run_without_its_context_is_refused_in_a_job(app: Windlass, working: Any) -> None:
    agent = Agent(TestModel(), name="support", capabilities=[WindlassDurability()])

    @app.task(retry=1)
    async def answer() -> str:
        return (await agent.run("hi")).output

    async with working(app):
        with pytest.raises(JobFailed, match=r"with durable\(ctx\)"):
            await (await answer.aenqueue()).aresult(SECONDS)


async def test_an_agent_inside_a_step_is_one_step(app: Windlass, working: Any) -> None:
    agent = Agent(TestModel(custom_output_text="hello"), name="support", capabilities=[WindlassDurability()])

    async def ask() -> str:
        return (await agent.run("hi")).output

    @app.task(keep_result="1h")
    async def answer(ctx: Context) -> str:
        with durable(ctx):
            return await ctx.step("ask", ask)

    async with working(app):
        handle = await answer.aenqueue()
        assert await handle.aresult(SECONDS) == "hello"
        assert await steps_of(app, handle) == ["ask"]


async def test_sync_tasks_are_refused(app: Windlass) -> None:
    @app.task
    def answer(ctx: Context) -> None:
        with durable(ctx):
            pass

    with pytest.raises(UserError, match="not async"):
        answer()


async def test_a_result_that_is_no_json_fails_the_job(app: Windlass, working: Any) -> None:
    script = Script(calls(ToolCallPart("connect", {}, "a")), text("connected"))
    agent = make_agent(script)

    @agent.tool_plain
    async def connect() -> Any:
        return object()

    @app.task(retry=5)
    async def answer(ctx: Context) -> str:
        with durable(ctx):
            return (await agent.run("Connect", deps=ctx)).output

    async with working(app):
        with pytest.raises(JobFailed, match="must be JSON"):
            await (await answer.aenqueue()).aresult(SECONDS)
    assert script.requests == 1


def test_a_killed_worker_repeats_no_stored_request(engine: EngineProcess, store: Store, tmp_path: Path) -> None:
    environment = {
        "WINDLASS_URL": engine.unix_url,
        "WINDLASS_NAMESPACE": store.namespace,
        "AGENT_NOTES": str(tmp_path),
    }
    command = [sys.executable, "-W", "error", str(HERE / "agent_app.py")]
    app = agent_app.app
    app.connect(store)
    try:
        handle = agent_app.answer.enqueue("Where is my order?")
        assert subprocess.run(command, env=environment, check=False).returncode == -9
        second = subprocess.Popen(command, env=environment)
        try:
            assert handle.result(SECONDS) == "sent"
        finally:
            second.kill()
            second.wait()
    finally:
        app.close()
    runs = {file.name: len(file.read_bytes()) for file in tmp_path.iterdir()}
    assert runs == {"request 1": 1, "look_up": 1, "request 2": 1, "send": 2, "request 3": 1}
