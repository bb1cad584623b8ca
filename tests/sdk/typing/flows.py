"""Input of a type checker, never run. Each marked line must be refused with the given error, and no other line."""

from typing import assert_type

from windlass import Chain, Context, FlowHandle, Group, GroupHandle, JobHandle, Outcome, Windlass, group

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
