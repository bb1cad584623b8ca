"""Input of a type checker, never run. Each marked line must be refused with the given error, and no other line."""

from typing import Any, assert_type

from windlass import (
    Chain,
    Context,
    FlowHandle,
    Group,
    GroupHandle,
    JobHandle,
    NamedFlow,
    NamedFlowHandle,
    Outcome,
    Step,
    Windlass,
    flow,
    group,
)

app = Windlass()


@app.task
async def double(number: int) -> int:
    return number * 2


@app.task
def show(number: int, mark: str = "") -> str:
    return mark


@app.task
async def read(word: str) -> str:
    return word


@app.task(queue="sums")
def total(ctx: Context, numbers: list[int]) -> int:
    return sum(numbers)


@app.task
async def look(found: list[Outcome[int]]) -> str:
    return ""


@app.task
async def known(found: list[int | None]) -> bool:
    return True


@app.task
async def nothing() -> None: ...


assert_type(double.call(1).then(show, "x"), Chain[str])
assert_type(double.call(1).then(show, mark="x").then(read).enqueue(), FlowHandle[str])
assert_type(double.call(1).then(double).enqueue().result(), int)
assert_type(double.call(1).and_then(nothing.call()), Chain[None])
assert_type(group(double.call(1), double.call(2)), Group[list[int]])
assert_type(group(double.call(number) for number in range(3)).then(total).then(show), Chain[str])
assert_type(group(double.call(1)).enqueue(), GroupHandle[list[int]])
assert_type(group(double.call(1), on_failure="collect").then(look), Chain[str])
assert_type(group(double.call(1), on_failure="ignore").then(known), Chain[bool])

double.call(1).then(read)  # error: arg-type
double.call(1).then(show, 5)  # error: arg-type
double.call(1).then(show, "x", "y")  # error: call-arg
double.call(1).then(nothing)  # error: arg-type
double.call(1).and_then(nothing)  # error: arg-type
group(read.call("x")).then(total)  # error: arg-type
group(double.call(1), on_failure="collect").then(total)  # error: arg-type
group(double.call(1), on_failure="never")  # error: call-overload


@app.cron("0 3 * * *", tz="Europe/Berlin")
@app.task
async def nightly() -> int:
    return 3


assert_type(nightly.enqueue(), JobHandle[int])
app.cron("0 3 * * *", overlap="never")  # error: arg-type


@app.every("1h")  # error: type-var
async def function() -> None: ...


# Named flows


@app.task
async def send(ctx: Context, number: int, word: str, note: str = "") -> bool:
    return True


@app.task
async def mix(numbers: list[int], word: str) -> bool:
    return True


@app.task
async def mix_last(word: str, numbers: list[int], *, note: str = "") -> bool:
    return True


@app.task
async def lists(numbers: list[int], words: list[str]) -> bool:
    return True


@app.task
async def three(a: int, b: str, c: bool) -> float:
    return 1.0


@app.task
async def four(a: int, b: str, c: bool, d: list[int], e: str = "") -> float:
    return 1.0


shop = flow("shop")
assert_type(shop, NamedFlow)
number = shop.step("number", double.call(1))
word = shop.step("word", read.call("x"))
assert_type(number, Step[int])
assert_type(shop.step("chain", double.call(1).then(show)), Step[str])
numbers = shop.step("group", group(double.call(1), double.call(2)))
assert_type(numbers, Step[list[int]])
outcomes = shop.step("outcomes", group(double.call(1), on_failure="collect"))
assert_type(outcomes, Step[list[Outcome[int]]])
assert_type(shop.step("look", look, outcomes), Step[str])
assert_type(shop.step("known", known, shop.step("nulls", group(double.call(1), on_failure="ignore"))), Step[bool])
assert_type(shop.step("show", show, number, mark="x"), Step[str])
sent = shop.step("send", send.using(queue="mail"), number, word, "note")
assert_type(sent, Step[bool])
assert_type(sent.after(number, word), Step[bool])
assert_type(shop.step("total", total, [number, number]), Step[int])
assert_type(shop.step("sum", total, numbers), Step[int])
assert_type(shop.step("mix", mix, [number], word), Step[bool])
assert_type(shop.step("mix last", mix_last, word, [number], note="x"), Step[bool])
assert_type(shop.step("lists", lists, [number], [word, word]), Step[bool])
assert_type(shop.step("three", three, number, word, sent), Step[float])
assert_type(shop.step("four", four, number, word, sent, numbers, e="x"), Step[float])
assert_type(shop.enqueue(), NamedFlowHandle)
assert_type(shop.enqueue().result(), dict[str, Any])
assert_type(shop.enqueue().steps[sent], JobHandle[bool])
assert_type(shop.enqueue().steps[number].result(), int)
assert_type(shop.enqueue().steps["send"], JobHandle[Any])
assert_type(shop.enqueue().flow_id, str)

shop.step("a", double)  # error: call-overload
shop.step("b", read, number)  # error: call-overload
shop.step("c", send, word, number)  # error: call-overload
shop.step("d", send, number)  # error: call-overload
shop.step("e", send, number, word, 5)  # error: call-overload
shop.step("f", show, number, marc="x")  # error: call-overload
shop.step("g", nothing, number)  # error: call-overload
shop.step("h", total, outcomes)  # error: call-overload
shop.step("i", total, [word])  # error: call-overload
shop.step("j", three, number, word, word)  # error: call-overload
shop.step("k", double.call(1), number)  # error: call-overload
shop.step("l", 5)  # error: call-overload
shop.step(6, double.call(1))  # error: call-overload
number.after("word")  # error: arg-type
