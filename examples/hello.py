"""Smallest program: one task, one result.

windlass worker hello:app      # in one terminal
python hello.py                # in another
"""

from windlass import Windlass

app = Windlass()


@app.task
def greet(name: str) -> str:
    return f"Hello, {name}!"


if __name__ == "__main__":
    job = greet.enqueue("world")
    print(job.result(timeout=30))

# prints:
# Hello, world!
