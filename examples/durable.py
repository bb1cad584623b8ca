"""Order that is paid once, waits for a person, and is shipped in parcels by child jobs.

windlass worker durable:app
python durable.py

Kill the worker whenever you like and start it again: no card is charged twice.
"""

from dataclasses import dataclass

from windlass import Backoff, Context, SignalTimeout, Windlass

app = Windlass()


@dataclass
class Approval:
    by: str
    is_granted: bool


async def charge(ctx: Context, order: int) -> str:
    """Call the payment provider here, with `ctx.step_id` as the idempotency key."""
    return f"receipt {order}"


async def refund(receipt: str) -> None: ...


@app.task
async def ship(order: int, parcel: int) -> str:
    return f"label {order}/{parcel}"


@app.task(retry=Backoff(tries=5))
async def fulfil(ctx: Context, order: int, parcels: int) -> str:
    receipt = await ctx.step("charge", charge, ctx, order)
    await ctx.sleep("3s")
    try:
        approval = await ctx.wait_for("approval", Approval, timeout="3d")
    except SignalTimeout:
        approval = Approval("timeout", is_granted=False)
    if not approval.is_granted:
        await ctx.step("refund", refund, receipt)
        return f"{receipt}: refunded, refused by {approval.by}"
    labels = await ctx.gather(ship.call(order, parcel) for parcel in range(parcels))
    return f"{receipt}: approved by {approval.by}, {', '.join(labels)}"


if __name__ == "__main__":
    good, bad = fulfil.enqueue(7, parcels=2), fulfil.enqueue(8, parcels=1)
    good.signal("approval", Approval("Ada", is_granted=True))
    bad.signal("approval", Approval("Bob", is_granted=False))
    print(good.result(timeout=60))
    print(bad.result(timeout=60))

# prints:
# receipt 7: approved by Ada, label 7/0, label 7/1
# receipt 8: refunded, refused by Bob
