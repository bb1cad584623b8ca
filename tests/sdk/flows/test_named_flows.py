"""Named flows with a real worker: results between steps, order, failures, the handle."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from windlass import Context, GroupHandle, JobCancelled, JobFailed, Outcome, Windlass, flow, group
from windlass.core.errors import QueueFull
from windlass.core.operations import Listing
from windlass.service import Service

pytestmark = pytest.mark.anyio
SECONDS = 20  # until a test gives up


@pytest.fixture
def ran() -> list[str]:
    return []


@pytest.fixture
def tasks(app: Windlass, ran: list[str]) -> Any:
    @app.task
    async def number(value: int) -> int:
        ran.append(f"number {value}")
        return value

    @app.task
    def join(ctx: Context, first: int, second: str, third: list[int] = [], mark: str = "") -> str:  # noqa: B006
        ran.append(f"join {ctx.flow_step}")
        return f"{first} {second} {third} {mark}"

    @app.task
    async def word(value: str) -> str:
        ran.append(f"word {value}")
        return value

    @app.task
    async def four(a: int, b: str, c: int, d: str, *, e: str = "") -> list[Any]:
        return [a, b, c, d, e]

    @app.task
    async def look(value: Any) -> str:
        return repr(value)

    @app.task
    async def outcomes(found: list[Outcome[int]]) -> list[str]:
        return [f"{outcome.state} {outcome.value}" for outcome in found]

    @app.task
    async def both(found: list[Outcome[int]], known: list[int | None]) -> list[Any]:
        return [[outcome.state for outcome in found], known]

    @app.task(retry=1)
    async def fail(text: str) -> int:
        raise ValueError(text)

    @app.task(queue="idle")  # no worker serves this queue
    async def idle() -> int:
        return 0

    return SimpleNamespace(**app.tasks)


async def test_results_of_two_steps_are_the_first_arguments(app: Windlass, tasks: Any, working: Any) -> None:
    made = flow("checkout")
    first = made.step("pay", tasks.number.call(7))
    second = made.step("pack", tasks.word.call("box"))
    third = made.step("send", tasks.join, first, second, mark="!")
    made.step("thank", tasks.word.call("bo")).after(third)
    async with working(app):
        handle = await made.aenqueue()
        assert await handle.aresult(SECONDS) == {"thank": "bo"}
        assert await handle.steps["send"].aresult(SECONDS) == "7 box [] !"
        assert await handle.steps[first].aresult(SECONDS) == 7
        assert list(handle.steps) == ["pay", "pack", "send", "thank"]
        assert [step.status for step in handle.steps.values()] == ["queued", "queued", "waiting", "waiting"]
        assert handle.id == handle.steps["thank"].id
        assert handle.status == "waiting"


async def test_a_named_flow_without_an_event_loop(app: Windlass, tasks: Any, working: Any) -> None:
    def whole() -> Any:
        made = flow("two")
        made.step("one", tasks.number.call(1))
        made.step("two", tasks.word.call("b"))
        handle = made.enqueue()
        return handle.result(SECONDS), handle.steps["one"].result(SECONDS)

    async with working(app):
        assert await asyncio.to_thread(whole) == ({"one": 1, "two": "b"}, 1)


async def test_four_results_and_an_argument(app: Windlass, tasks: Any, working: Any) -> None:
    made = flow("four")
    one, two = made.step("one", tasks.number.call(1)), made.step("two", tasks.word.call("b"))
    made.step("all", tasks.four, one, two, one, two, e="x")
    async with working(app):
        assert await (await made.aenqueue()).aresult(SECONDS) == {"all": [1, "b", 1, "b", "x"]}


async def test_a_list_of_steps_passes_the_list_of_their_results(app: Windlass, tasks: Any, working: Any) -> None:
    made = flow("lists")
    numbers = [made.step(f"number {value}", tasks.number.call(value)) for value in (3, 1, 2)]
    word = made.step("word", tasks.word.call("w"))
    made.step("join", tasks.join, numbers[0], word, numbers)
    made.step("look", tasks.look, numbers)
    async with working(app):
        assert await (await made.aenqueue()).aresult(SECONDS) == {"join": "3 w [3, 1, 2] ", "look": "[3, 1, 2]"}


async def test_a_chain_and_a_group_are_steps(app: Windlass, tasks: Any, working: Any) -> None:
    made = flow("parts")
    chain = made.step("chain", tasks.number.call(5).then(tasks.number))
    pages = made.step("pages", group(tasks.number.call(1), tasks.number.call(2)))
    made.step("look", tasks.look, [chain, pages])
    made.step("seen", tasks.look, pages)
    made.step("last", group(tasks.word.call("a"), tasks.word.call("b"))).after(chain, pages)
    async with working(app):
        handle = await made.aenqueue()
        assert await handle.aresult(SECONDS) == {"look": "[5, [1, 2]]", "seen": "[1, 2]", "last": ["a", "b"]}
        step = handle.steps["pages"]
        assert isinstance(step, GroupHandle)
        assert await step.aresult(SECONDS) == [1, 2]
        assert await handle.steps["chain"].aresult(SECONDS) == 5


async def test_steps_run_in_the_order_that_after_gives(app: Windlass, tasks: Any, ran: list[str], working: Any) -> None:
    made = flow("order")
    late = made.step("late", tasks.word.call("late"))
    middle = made.step("middle", tasks.word.call("middle"))
    late.after(middle, made.step("first", tasks.word.call("first")))
    middle.after(made.step("early", tasks.word.call("early")))
    async with working(app):
        assert await (await made.aenqueue()).aresult(SECONDS) == {"late": "late"}
    assert ran.index("word early") < ran.index("word middle") < ran.index("word late")
    assert ran[-1] == "word late"
    assert len(ran) == 4


# Failures


async def test_a_failure_is_that_of_the_step_that_failed(app: Windlass, tasks: Any, ran: Any, working: Any) -> None:
    made = flow("bad")
    bad = made.step("bad", tasks.fail.call("no"))
    good = made.step("good", tasks.word.call("w"))
    made.step("join", tasks.join, bad, good)
    made.step("other", tasks.word.call("other"))
    async with working(app):
        handle = await made.aenqueue()
        with pytest.raises(JobFailed, match="ValueError: no") as failed:
            await handle.aresult(SECONDS)
        assert failed.value.job_id == handle.steps["bad"].id
        assert await handle.steps["other"].aresult(SECONDS) == "other"
        assert await handle.steps["join"].astate() == "failed"
    assert "join join" not in ran


async def test_a_step_gets_the_outcomes_of_a_group(app: Windlass, tasks: Any, working: Any) -> None:
    made = flow("lenient")
    members = [tasks.number.call(1), tasks.fail.call("no")]
    found = made.step("found", group(members, on_failure="collect"))
    known = made.step("known", group(members, on_failure="ignore"))
    seen = made.step("seen", tasks.outcomes, found)
    made.step("both", tasks.both, found, known)
    made.step("after", tasks.look, seen).after(known)
    async with working(app):
        assert await (await made.aenqueue()).aresult(SECONDS) == {
            "both": [["finished", "failed"], [1, None]],
            "after": "['finished 1', 'failed None']",
        }


async def test_a_cancel_ends_every_step(app: Windlass, tasks: Any, working: Any) -> None:
    made = flow("cancelled")
    first = made.step("first", tasks.idle.call())
    made.step("second", tasks.look, first)
    made.step("third", tasks.word.call("w")).after(first)
    async with working(app, queues=["default"]):
        handle = await made.aenqueue()
        assert await handle.acancel() == "cancelled"
        with pytest.raises(JobCancelled):
            await handle.aresult(SECONDS)
        states = [(await step.ainfo()).state.label for step in handle.steps.values()]
    assert states == ["cancelled"] * 3


async def test_a_named_flow_that_does_not_fit_is_refused_whole(app: Windlass, tasks: Any, service: Service) -> None:
    app.service.configure("small", {"max_length": 1}).wait()
    made = flow("large")
    first = made.step("first", tasks.number.call(1))
    for at in range(2):
        made.step(f"small {at}", tasks.look.using(queue="small"), first)
    with pytest.raises(QueueFull):
        await made.aenqueue()
    for state in ("queued", "waiting", "running", "finished"):
        assert service.jobs(Listing(queue="default", state=state)).wait().jobs == []
    await app.aclose()


# Size


async def test_more_last_steps_than_a_job_can_wait_for(app: Windlass, tasks: Any, working: Any) -> None:
    made = flow("wide")
    for at in range(1500):
        made.step(f"step {at}", tasks.number.call(at))
    async with working(app, concurrency=64):
        found = await (await made.aenqueue()).aresult(120)
    assert found == {f"step {at}": at for at in range(1500)}


async def test_a_long_flow(app: Windlass, tasks: Any, working: Any) -> None:
    made = flow("long")
    step = made.step("step 0", tasks.number.call(0))
    for at in range(1, 1200):
        step = made.step(f"step {at}", tasks.number.call(at)).after(step)
    async with working(app):
        assert await (await made.aenqueue()).aresult(120) == {"step 1199": 1199}


# Children


@pytest.mark.parametrize("key", ["", "once"])
async def test_a_named_flow_of_children(app: Windlass, tasks: Any, working: Any, key: str) -> None:
    @app.task
    async def parent(ctx: Context) -> list[Any]:
        if not ctx.is_resumed:
            made = flow("inner")
            made.step("look", tasks.look, made.step("number", tasks.number.call(6)))
            await ctx.aspawn(made, key=key)
            return []
        return sorted(str(child.result) for child in ctx.children)

    async with working(app):
        assert await (await parent.aenqueue()).aresult(SECONDS) == ["6", "6"]


# Workers with other versions of a task


async def test_a_task_that_has_lost_a_parameter(app: Windlass, tasks: Any, store: Any, working: Any) -> None:
    @app.task(retry=1)
    async def add(first: int, second: int) -> int:
        return first + second

    made = flow("add")
    made.step("sum", add, made.step("one", tasks.number.call(1)), made.step("two", tasks.number.call(2)))
    other = Windlass()
    other.connect(store)
    other.task(name="number")(tasks.number.function)

    @other.task(name="add")
    async def changed(first: int) -> int:
        return first

    async with working(other):
        handle = await made.aenqueue()
        with pytest.raises(JobFailed, match="passes 2 results, and the task has 1 parameters"):
            await handle.aresult(SECONDS)
    await app.aclose()
