"""One call for many jobs: each job is enqueued, retried and answered separately, but the work is done in one call.

windlass worker batches:app
python batches.py
"""

from windlass import Windlass

app = Windlass()


@app.batch_task(most=10, wait="200ms")
def index(pages: list[str]) -> list[str]:
    return [f"{page} indexed with {len(pages) - 1} others" for page in pages]


if __name__ == "__main__":
    jobs = app.enqueue_many(index.call(page) for page in ("a", "b", "c"))
    print([job.result(timeout=30) for job in jobs])

# prints:
# ['a indexed with 2 others', 'b indexed with 2 others', 'c indexed with 2 others']
