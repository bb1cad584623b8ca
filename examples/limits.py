"""Limits: a rate for a mail provider, one job at a time for each customer, and no duplicate calls.

windlass worker limits:app
python limits.py
"""

import asyncio

from windlass import Limit, Rate, Windlass

app = Windlass()


@app.task(
    queue="mail",
    unique=lambda customer, number: f"mail:{customer}:{number}",
    limits=[Rate(50, per="1s"), Limit(1, key="customer")],
)
async def send(customer: str, number: int) -> str:
    await asyncio.sleep(0.01)
    return f"{customer} {number}"


if __name__ == "__main__":
    calls = [send.call(customer, number) for number in range(3) for customer in ("ann", "bob")]
    jobs = app.enqueue_many(calls)
    print(len(jobs), "mails,", len({job.id for job in jobs}), "jobs")
    print(sorted(job.result(timeout=30) for job in jobs))

# prints:
# 6 mails, 6 jobs
# ['ann 0', 'ann 1', 'ann 2', 'bob 0', 'bob 1', 'bob 2']
