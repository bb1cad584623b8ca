"""Wrong descriptions of named flows: each is refused with a sentence that says what to do, and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sdk.apps.flow_tasks import flow_tasks
from windlass import Windlass, flow, group
from windlass.core.errors import BadInput, TooLarge


@pytest.fixture
def tasks() -> Any:
    return flow_tasks(Windlass())  # nothing is enqueued


def test_names(tasks: Any) -> None:
    with pytest.raises(BadInput, match="name of a flow must not be empty"):
        flow("")
    with pytest.raises(TooLarge, match="name of a flow has 101 bytes"):
        flow("x" * 101)
    made = flow("checkout")
    with pytest.raises(BadInput, match="name of a step must not be empty"):
        made.step("", tasks.nothing.call())
    with pytest.raises(BadInput, match="control characters"):
        made.step("a\nb", tasks.nothing.call())
    made.step("pay", tasks.nothing.call())
    with pytest.raises(BadInput, match="'checkout' has a step 'pay' already: use another name"):
        made.step("pay", tasks.nothing.call())
    assert list(made.steps) == ["pay"]


def test_a_flow_without_steps() -> None:
    with pytest.raises(BadInput, match="'checkout' has no steps: add them"):
        flow("checkout").enqueue()


def test_a_step_of_another_flow(tasks: Any) -> None:
    mine, other = flow("mine"), flow("other")
    step, foreign = mine.step("one", tasks.double.call(1)), other.step("two", tasks.double.call(1))
    with pytest.raises(BadInput, match="'two' is a step of another flow"):
        step.after(foreign)
    with pytest.raises(BadInput, match="'two' is a step of another flow"):
        mine.step("three", tasks.double, foreign)
    with pytest.raises(BadInput, match="'two' is a step of another flow"):
        mine.step("three", tasks.total, [step, foreign])
    assert list(mine.steps) == ["one"]
    assert step.awaited == ()


def test_a_task_of_another_app(tasks: Any) -> None:
    made = flow("apps")
    made.step("one", tasks.double.call(1))
    with pytest.raises(BadInput, match="another app"):
        made.step("two", flow_tasks(Windlass()).double.call(1))


def test_steps_that_wait_for_each_other(tasks: Any) -> None:
    made = flow("circle")
    one = made.step("one", tasks.double.call(1))
    two = made.step("two", tasks.double, one)
    three = made.step("three", tasks.double.call(1)).after(two)
    with pytest.raises(BadInput, match=r"'circle' wait for each other: .*(one → two → three → one|three → two → one)"):
        one.after(three)
    assert one.awaited == ()
    with pytest.raises(BadInput, match="one → one"):
        one.after(one)
    four = made.step("four", tasks.double.call(1))
    one.after(four)  # a later step, and no cycle
    with pytest.raises(BadInput, match="wait for each other"):
        four.after(two)
    assert [step.name for step in one.awaited] == ["four"]


def test_calls_that_are_no_steps(tasks: Any) -> None:
    made = flow("calls")
    one = made.step("one", tasks.double.call(1))
    with pytest.raises(BadInput, match=r"give double.call\(…\), or give steps"):
        made.step("two", tasks.double)
    with pytest.raises(BadInput, match=r"give double.call\(…\), or give steps"):
        made.step("two", tasks.double, 5)
    with pytest.raises(BadInput, match=r"give total.call\(…\), or give steps"):
        made.step("two", tasks.total, [])
    with pytest.raises(BadInput, match="by position, before the other arguments"):
        made.step("two", tasks.add, one, other=one)
    with pytest.raises(BadInput, match="has its arguments already"):
        made.step("two", tasks.double.call(1), one)
    with pytest.raises(BadInput, match="takes a call, a chain, a group or a task"):
        made.step("two", len, one)
    with pytest.raises(BadInput, match="after of step 'one' takes steps, not 5"):
        one.after(5)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="unexpected keyword"):
        made.step("two", tasks.add, one, others=1)
    assert list(made.steps) == ["one"]


def test_a_task_without_parameters_for_the_results(tasks: Any) -> None:
    made = flow("none")
    one = made.step("one", tasks.double.call(1))
    with pytest.raises(BadInput, match=r"nothing has 0 parameters for 1 results.*nothing.call\(…\)\).after"):
        made.step("two", tasks.nothing, one)
    with pytest.raises(BadInput, match="double has 1 parameters for 2 results"):
        made.step("two", tasks.double, one, one)


@pytest.mark.parametrize("policy", ["collect", "ignore"])
def test_a_group_that_may_fail_beside_a_step_that_must_not(tasks: Any, policy: Any) -> None:
    made = flow("mixed")
    pages = made.step("pages", group([tasks.double.call(1)], on_failure=policy))
    one = made.step("one", tasks.double.call(1))
    sentence = rf"'pages' \(on_failure='{policy}'\).*waits for 'one'.*Insert a step after 'pages'"
    with pytest.raises(BadInput, match=sentence):
        made.step("both", tasks.add, pages, one)
    with pytest.raises(BadInput, match=sentence):
        made.step("both", tasks.total, [one, pages])
    seen = made.step("seen", tasks.look, pages)
    with pytest.raises(BadInput, match=sentence):
        seen.after(one)
    assert seen.awaited == (pages,)
    made.step("order", tasks.double, one).after(pages)


def test_too_many_jobs(app: Windlass) -> None:
    tasks = flow_tasks(app)
    made = flow("many")
    for at in range(2001):
        made.step(f"step {at}", tasks.double.call(at))
    with pytest.raises(TooLarge, match="at most 2000 jobs"):
        made.enqueue()


def test_too_many_jobs_before_one(app: Windlass) -> None:
    tasks = flow_tasks(app)
    made = flow("many")
    steps = [made.step(f"step {at}", tasks.double.call(at)) for at in range(1001)]
    made.step("total", tasks.total, steps)
    with pytest.raises(TooLarge, match="'total' waits for 1001 jobs; at most 1000"):
        made.enqueue()
