"""Agent whose model requests and tool calls are steps, and whose refunds a person approves.

pip install 'windlass-queue[pydantic-ai]'
windlass worker agent:app
python agent.py

The model is a script, so that the example needs no key. Write `Agent("openai:gpt-5.2", …)` for a real one.
"""

from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from windlass import Backoff, Context, Windlass
from windlass.contrib.pydantic_ai import StepOptions, WindlassDurability, durable

app = Windlass()


def decide(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Look the order up, then refund it, then repeat the answer of the tool."""
    returns = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    if len(returns) == 2:
        return ModelResponse(parts=[TextPart(f"About your order: {returns[-1].content}")])
    name, arguments = [("find_order", {"order": 7}), ("refund", {"order": 7, "amount": 90})][len(returns)]
    return ModelResponse(parts=[ToolCallPart(name, arguments)])


durability = WindlassDurability[Context](model=StepOptions(retry=Backoff(tries=4), timeout="2m"))
agent = Agent(FunctionModel(decide), name="support", deps_type=Context, capabilities=[durability])


@agent.tool_plain
async def find_order(order: int) -> str:
    return f"order {order}: 1 bell, 90 €, broken on arrival"


@agent.tool(metadata={"windlass": False})  # it waits, so it is no step; its parts are
async def refund(run: RunContext[Context], order: int, amount: int) -> str:
    ctx, key = run.deps, run.tool_call_id or ""
    if not await ctx.wait_for("approval", bool, timeout="3d", key=key):
        return "a person has refused the refund"
    return await ctx.step("refund", pay_back, order, amount, key=key)


async def pay_back(order: int, amount: int) -> str:
    return f"{amount} € are on their way"


@app.task(retry=Backoff(tries=5))
async def answer(ctx: Context, question: str) -> str:
    with durable(ctx):
        result = await agent.run(question, deps=ctx)
    return result.output


if __name__ == "__main__":
    first, second = (answer.enqueue("My bell is broken. I want my money back.") for _ in range(2))
    first.signal("approval", True)
    second.signal("approval", False)
    print(first.result(timeout=60))
    print(second.result(timeout=60))

# prints:
# About your order: 90 € are on their way
# About your order: a person has refused the refund
