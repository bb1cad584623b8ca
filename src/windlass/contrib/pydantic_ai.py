"""Agents of pydantic-ai as durable jobs: model requests and tool calls are steps of the job.

agent = Agent("openai:gpt-5.2", name="support", capabilities=[WindlassDurability()])

@app.task
async def answer(ctx: Context, question: str) -> str:
    with durable(ctx):
        return (await agent.run(question)).output
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal, TypedDict, cast
from weakref import WeakKeyDictionary

from pydantic import TypeAdapter
from pydantic_ai.agent import EventStreamHandler
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    CallableOperationBackend,
    DurabilityEngineSpec,
    DurableOperationId,
    JournalOperationNamer,
    ModelRequestId,
    RoleBasedOperationConfig,
    ToolsetCallToolId,
    ToolsetKind,
    conversation_id_from_run_id,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import AgentStreamEvent
from pydantic_ai.models import Model
from pydantic_ai.tools import AgentDepsT, RunContext

from windlass.core.durable import STEP_NAME_MAX
from windlass.core.retry import Backoff
from windlass.sdk.context import Context, current_job
from windlass.sdk.durable.effects import current_step
from windlass.sdk.durations import Duration
from windlass.sdk.failures import GiveUp

__all__ = ["StepOptions", "WindlassDurability", "durable"]

_event = TypeAdapter[Any](AgentStreamEvent)
KEY_MAX = 100  # bytes of a step's key; the rest is for its name and the suffix of a repeated name


class StepOptions(TypedDict, total=False):
    """Options of the steps that an agent makes. As metadata of a tool: `metadata={"windlass": StepOptions(…)}`."""

    retry: Backoff
    timeout: Duration


_run_numbers: WeakKeyDictionary[Context, Iterator[int]] = WeakKeyDictionary()  # code may enter `durable` several times


class AgentRuns:
    """Agent runs of one run of a job. Their ids are the same in each attempt."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._next_number = _run_numbers.setdefault(context, itertools.count(1))

    def next_id(self) -> str:
        return f"{self.context.id}:{next(self._next_number)}"

    def key_of(self, run_id: str | None) -> str:
        """Return a short key of an agent run. The first run of a job has none."""
        own, _, number = (run_id or "").rpartition(":")
        if own != self.context.id:
            return run_id or ""
        return "" if number == "1" else f"run{number}"


_runs: ContextVar[AgentRuns | None] = ContextVar("windlass_agent_runs", default=None)
_event_run: ContextVar[RunContext[Any] | None] = ContextVar("windlass_agent_event_run", default=None)


@contextmanager
def durable(context: Context) -> Iterator[None]:
    """Run agents as steps of this job. Agents with `WindlassDurability` need it in the code of a job."""
    if not context.task.is_async:
        raise UserError(f"The task {context.task.name!r} is not async: agents are durable in async tasks only.")
    token = _runs.set(AgentRuns(context))
    try:
        yield
    finally:
        _runs.reset(token)


class WindlassDurability(BaseDurabilityCapability[AgentDepsT]):
    """Capability of an agent that runs its model requests and tool calls as steps of the job.

    Outside of jobs it does nothing. A tool that waits durably must not be a step: `metadata={"windlass": False}`.

    model, tool: options of all model requests, or of all tool calls. Without `retry`, a failure passes, and the job is
    tried again by the policy of its task.
    stream: write the events of the agent to `ctx.stream`, as JSON.
    """

    engine_spec = DurabilityEngineSpec(
        engine_name="Windlass",
        durable_unit_noun="step",
        durable_container_noun="job",
        codec=JSON_CODEC,
        serialization_failure=lambda error: GiveUp(f"The result of a step of an agent must be JSON: {error}"),
        # A toolset that is passed to a single run is not wrapped, so its calls would run again.
        unsupported_runtime_toolset_kinds=frozenset({"function", "mcp", "dynamic"}),
        toolset_lifecycles={"function": "enter-always", "mcp": "enter-in-durable-unit", "dynamic": "enter-never"},
        tool_config_key="windlass",
    )

    def __init__(
        self,
        *,
        name: str | None = None,
        models: Mapping[str, Model] | None = None,
        event_stream_handler: EventStreamHandler[AgentDepsT] | None = None,
        stream: bool = False,
        model: StepOptions | None = None,
        tool: StepOptions | None = None,
    ) -> None:
        if stream and event_stream_handler is not None:
            raise UserError("stream=True is an event_stream_handler of its own: pass one of them.")
        handler = _write_events if stream else event_stream_handler
        super().__init__(models=models, event_stream_handler=handler, name=name)
        self._is_streaming = stream
        self._model_options = model or StepOptions()
        self._tool_options = tool or StepOptions()

    @property
    def in_durable_context(self) -> bool:
        runs = _runs.get()
        return runs is not None and runs.context.id != "" and not current_step.get()

    async def before_run(self, ctx: RunContext[AgentDepsT]) -> None:
        if current_job.get() is not None and _runs.get() is None and not current_step.get():
            raise UserError(
                "This agent has the capability WindlassDurability and runs in a job, but not in `with durable(ctx):`. "
                "Its requests would be repeated by the next attempt."
            )
        await super().before_run(ctx)

    # Ids and times that are the same in each attempt

    def get_default_run_id(self) -> str | None:
        runs = _runs.get()
        return runs.next_id() if runs is not None and self.in_durable_context else None

    def get_default_conversation_id(self, run_id: str) -> str | None:
        return conversation_id_from_run_id(run_id) if self.in_durable_context else None

    async def get_run_start_time(self, run_id: str) -> datetime | None:
        runs = _runs.get()
        if runs is None or not self.in_durable_context:
            return None
        return await runs.context.step(f"{self.name}.start", _now, key=runs.key_of(run_id))

    # Steps

    def get_durable_operation_backend(self) -> StepBackend:
        return StepBackend(
            namer=StepNamer(self.name, default_model_id=self.default_model_id or "default"),
            config=RoleBasedOperationConfig[StepOptions](
                model=self._model_options,
                event=StepOptions(),
                capability=StepOptions(),
                tool=self._tool_options,
                resolve_tool=self._resolve_tool,
            ),
        )

    def _resolve_tool(
        self, operation_id: DurableOperationId, tool: Any, tool_name: str
    ) -> StepOptions | Literal[False]:
        """Return the options of a tool: those of its metadata, then those of all tools. False: it is no step."""
        resolve = self._build_resolve_tool_config(self._tool_options)
        return cast(StepOptions | Literal[False], resolve(tool, tool_name))

    def _toolset_base_config(self, kind: ToolsetKind) -> StepOptions:
        return self._tool_options

    async def _dispatch_event_stream_event(self, ctx: RunContext[AgentDepsT], event: AgentStreamEvent) -> None:
        """Handle an event outside of model requests in a step. A stream needs none: a replay writes nothing twice."""
        if self._is_streaming:
            await _write_events(ctx, self._single_event_stream(event))
            return
        token = _event_run.set(ctx)
        try:
            await super()._dispatch_event_stream_event(ctx, event)
        finally:
            _event_run.reset(token)


class StepBackend(CallableOperationBackend[StepOptions]):
    """Runs the operations of an agent as steps."""

    async def execute(
        self,
        *,
        operation_id: DurableOperationId,
        name: str,
        body: Callable[[], Awaitable[object]],
        cache_key: tuple[object, ...],
        config: StepOptions,
    ) -> object:
        runs = _runs.get()
        if runs is None:
            return await body()

        async def call() -> Any:
            return await body()

        key = _make_key(runs, operation_id, cache_key)
        return await runs.context.step(name, call, key=key, **config)


def _make_key(runs: AgentRuns, operation_id: DurableOperationId, cache_key: tuple[object, ...]) -> str:
    """Make the key that tells apart steps that may be open at the same time: of other agent runs, of parallel tools."""
    run = next((part for part in cache_key if isinstance(part, RunContext)), _event_run.get())
    parts = [runs.key_of(run.run_id) if run is not None else ""]
    if isinstance(operation_id, ToolsetCallToolId) and run is not None:
        parts.append(run.tool_call_id or "")
    key = ":".join(part for part in parts if part)
    is_long = len(key.encode()) > KEY_MAX
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest() if is_long else key


class StepNamer(JournalOperationNamer):
    """Names of steps. Model requests and tool calls, which people look at most, have short names."""

    def __init__(self, agent_name: str, *, default_model_id: str) -> None:
        super().__init__(agent_name, default_model_id=default_model_id)
        self._agent = agent_name

    def invocation_name(self, operation_id: DurableOperationId, *, label: str | None) -> Any:
        found = super().invocation_name(operation_id, label=label)
        name = self._short_name(operation_id, label) or found.operation_name
        return dataclasses.replace(found, operation_name=name[: STEP_NAME_MAX - KEY_MAX - len("#1000")])

    def _short_name(self, operation_id: DurableOperationId, label: str | None) -> str:
        if isinstance(operation_id, ModelRequestId):
            kind = "stream" if operation_id.streaming else "request"
            return f"{self._agent}.{kind}{self._model_suffix(operation_id.model_id)}"
        if isinstance(operation_id, ToolsetCallToolId):
            return f"{self._agent}.{label}"
        return ""


async def _now() -> datetime:
    return datetime.now(UTC)


async def _write_events(ctx: RunContext[Any], events: AsyncIterable[AgentStreamEvent]) -> None:
    """Write events to the stream of the job. Outside of jobs, only read them."""
    runs = _runs.get()
    async for event in events:
        if runs is not None:
            await runs.context.stream.write(_event.dump_python(event, mode="json"))
