"""Agent whose tool kills its worker once; run as a program, this is a worker.

The environment names its engine and the folder in which it records runs.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from windlass import Backoff, Context, Windlass, Worker
from windlass.contrib.pydantic_ai import WindlassDurability, durable

app = Windlass()
NOTES = Path(os.environ.get("AGENT_NOTES", "."))


def note(word: str) -> int:
    """Record a run and return how often it was recorded before."""
    with (NOTES / word).open("ab") as file:
        before = file.tell()
        file.write(b".")
    return before


def decide(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Call the tool `look_up`, then the tool `send`, then answer."""
    answers = sum(isinstance(message, ModelResponse) for message in messages)
    note(f"request {answers + 1}")
    if answers == 2:
        return ModelResponse(parts=[TextPart("sent")])
    return ModelResponse(parts=[ToolCallPart(("look_up", "send")[answers], {"order": 7})])


agent = Agent(FunctionModel(decide), name="support", capabilities=[WindlassDurability()])


@agent.tool_plain
def look_up(order: int) -> str:
    note("look_up")
    return f"order {order}"


@agent.tool_plain
def send(order: int) -> str:
    if note("send") == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return "mail sent"


@app.task(retry=Backoff(tries=3, base=0), lease="1s")
async def answer(ctx: Context, question: str) -> str:
    with durable(ctx):
        return (await agent.run(question)).output


if __name__ == "__main__":
    asyncio.run(Worker(app).run())
