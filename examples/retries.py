"""Task that sometimes fails: attempts with growing pauses, and the error when no attempt is left.

windlass worker retries:app
python retries.py
"""

from windlass import Backoff, Context, GiveUp, JobFailed, Windlass

app = Windlass()


@app.task(retry=Backoff(tries=4, base="50ms", factor=2, cap="1s"))
async def fetch(ctx: Context, page: int) -> str:
    if page < 0:
        raise GiveUp("there is no such page")  # a retry would not help
    if ctx.attempt < 3:
        raise ConnectionError(f"attempt {ctx.attempt} broke")
    return f"page {page} in attempt {ctx.attempt}"


if __name__ == "__main__":
    print(fetch.enqueue(7).result(timeout=30))
    try:
        fetch.enqueue(-1).result(timeout=30)
    except JobFailed as failure:
        print(failure.type, "-", failure.message, "- after", failure.attempts, "attempt")

# prints:
# page 7 in attempt 3
# GiveUp - there is no such page - after 1 attempt
