"""Waits for signals, and the signals that answer them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

from windlass import Context, JobFailed, SignalTimeout, SyncContext, Testing, Windlass
from windlass.core.durable import SCHEMA_MAX
from windlass.core.errors import BadInput
from windlass.sdk.durable.schemas import signal_schema


@dataclass
class Approval:
    by: str
    is_given: bool


def declare(app: Windlass, is_async: bool) -> Any:
    if is_async:

        @app.task(name="wait", keep_result="30d")
        async def wait(ctx: Context) -> str:
            approval = await ctx.wait_for("approval", Approval, timeout="3d")
            return f"{approval.by}: {approval.is_given}"

        return wait

    @app.task(name="wait", keep_result="30d")
    def sync_wait(ctx: SyncContext) -> str:
        approval = ctx.wait_for("approval", Approval, timeout="3d")
        return f"{approval.by}: {approval.is_given}"

    return sync_wait


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("comes_first", [True, False])
def test_a_signal_resumes_the_job(tested: Windlass, t: Testing, is_async: bool, comes_first: bool) -> None:
    handle = declare(tested, is_async).enqueue()
    if comes_first:
        assert handle.signal("approval", Approval("ann", True)) == "kept"
        assert t.run_all(raises=True).suspended == 0
    else:
        assert t.run_all(raises=True).suspended == 1
        assert handle.signal("approval", {"by": "ann", "is_given": True}) == "received"
        assert t.run_all(raises=True).finished == 1
    assert handle.result(0) == "ann: True"


def test_each_signal_goes_to_one_wait_in_order(tested: Windlass, t: Testing) -> None:
    @tested.task
    async def task(ctx: Context) -> list[int]:
        found = [await ctx.wait_for("number", int) for _ in range(3)]
        await ctx.sleep("5m")  # the values stay the same in later runs
        return found

    handle = task.enqueue()
    for number in (1, 2):
        t.signal(handle, "number", number)
    t.signal(handle, "other", 0)
    assert t.run_all(raises=True).suspended == 1
    t.signal(handle.id, "number", 3)
    assert t.run_for("5m", raises=True).finished == 1
    assert handle.result(0) == [1, 2, 3]
    assert [step.name for step in handle.steps().steps] == ["number", "number#2", "number#3", "sleep"]


def test_a_timeout_is_raised_in_every_later_attempt(tested: Windlass, t: Testing, ran: list[Any]) -> None:
    @tested.task(keep_result="30d")
    async def task(ctx: Context) -> str:
        try:
            await ctx.wait_for("approval", timeout="1h")
        except SignalTimeout as error:
            ran.append(error.signal)
        await ctx.sleep("1h")
        return "without"

    handle = task.enqueue()
    assert t.run_for("1h", raises=True).suspended == 2
    t.signal(handle, "approval", "too late")
    assert t.run_for("1h", raises=True).finished == 1
    assert (handle.result(0), ran) == ("without", ["approval", "approval"])


def test_an_uncaught_timeout_fails_the_job_without_a_retry(tested: Windlass, t: Testing) -> None:
    handle = declare(tested, True).enqueue()
    t.run_for("3d")
    with pytest.raises(JobFailed) as told:
        handle.result(0)
    assert (told.value.type, told.value.attempts) == ("SignalTimeout", 1)


def test_a_value_of_another_type_fails_the_job(tested: Windlass, t: Testing) -> None:
    handle = declare(tested, True).enqueue()
    t.signal(handle, "approval", "yes")
    t.run_all()
    with pytest.raises(JobFailed, match="The stored value of 'approval' is not a Approval"):
        handle.result(0)


def test_an_inline_call_cannot_wait(tested: Windlass) -> None:
    wait = declare(tested, False)
    with pytest.raises(BadInput, match="called inline"):
        wait()


# Schemas, from which the dashboard makes a form


class Order(TypedDict):
    number: int


class Limits(msgspec.Struct, rename="camel"):
    at_most: int | None = None


class Review(pydantic.BaseModel):
    stars: int = pydantic.Field(ge=1, le=5)
    text: str = ""


@pytest.mark.parametrize(
    ("kind", "properties"),
    [
        (Approval, {"by", "is_given"}),
        (Order, {"number"}),
        (Limits, {"atMost"}),
        (Review, {"stars", "text"}),
    ],
)
def test_a_type_with_fields_has_a_schema(kind: Any, properties: set[str]) -> None:
    found = signal_schema(kind)
    assert found is not None
    schema = msgspec.json.decode(found.data)
    described = schema.get("$defs", {}).get(kind.__name__, schema)
    assert set(described["properties"]) == properties
    assert signal_schema(kind) is found  # made once


@pytest.mark.parametrize(
    ("kind", "schema"),
    [(bool, {"type": "boolean"}), (Literal["a", "b"], {"enum": ["a", "b"]}), (list[int], "array"), (Decimal, "string")],
)
def test_a_plain_type_has_a_schema(kind: Any, schema: Any) -> None:
    found = signal_schema(kind)
    assert found is not None
    decoded = msgspec.json.decode(found.data)
    assert schema in (decoded, decoded.get("type"))


class Broken:
    __annotations__ = {"x": "no_such_name"}


@pytest.mark.parametrize("kind", [Any, Path, Broken, Annotated[int, []], Literal[tuple("x" * n for n in range(200))]])
def test_other_types_have_no_schema(kind: Any) -> None:
    assert signal_schema(kind) is None
    assert sum(range(200)) > SCHEMA_MAX  # the last type has a schema that is too long


@pytest.mark.parametrize("is_async", [True, False])
def test_the_schema_is_stored_while_the_job_waits(tested: Windlass, t: Testing, is_async: bool) -> None:
    handle = declare(tested, is_async).enqueue()
    t.run_all(raises=True)
    (step,) = handle.steps().steps
    assert step.schema == step.value == signal_schema(Approval)
    t.signal(handle, "approval", Approval("ann", True))
    (step,) = handle.steps().steps
    assert step.schema is None
    assert t.run_all(raises=True).finished == 1
    assert handle.result(0) == "ann: True"


def test_a_model_of_pydantic_arrives(tested: Windlass, t: Testing) -> None:
    @tested.task(keep_result="30d")
    async def task(ctx: Context) -> int:
        return (await ctx.wait_for("review", Review)).stars

    handle = task.enqueue()
    t.run_all(raises=True)
    assert handle.steps().steps[0].schema == signal_schema(Review)
    t.signal(handle, "review", {"stars": 4})
    t.run_all(raises=True)
    assert handle.result(0) == 4
