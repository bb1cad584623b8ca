"""Right and wrong lines about streams, for mypy."""

from __future__ import annotations

from typing import assert_type

from windlass import Context, StreamEntry, SyncContext, Windlass

app = Windlass()


@app.task
async def answer(ctx: Context) -> None:
    assert_type(await ctx.stream.write("a", {"b": 1}), None)
    await ctx.stream.write()  # error: call-arg


@app.task
def report(ctx: SyncContext) -> None:
    ctx.stream.write("a", {"b": 1})
    ctx.stream.write()  # error: call-arg


handle = answer.enqueue()
for entry in handle.stream(start=5, type=str):
    assert_type(entry, StreamEntry)
handle.stream("first")  # error: arg-type


async def in_an_event_loop() -> None:
    async for entry in handle.stream():
        assert_type(entry.position, int)
