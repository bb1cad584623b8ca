"""Flows: a chain passes results on, a group runs jobs side by side, a job divides its work among children.

windlass worker flows:app
python flows.py
"""

from windlass import Context, Windlass, group

app = Windlass()


@app.task
def fetch(city: str) -> list[int]:
    return [len(city), 2 * len(city)]


@app.task
def warmest(degrees: list[int]) -> int:
    return max(degrees)


@app.task
def report(degrees: list[int], title: str) -> str:
    return f"{title}: {degrees}"


@app.task
def total(ctx: Context, numbers: list[int]) -> int:
    if not ctx.is_resumed:  # first run: spawn children; the job runs again when they have ended
        for number in numbers:
            ctx.spawn(square.call(number))
        return 0
    return sum(child.result for child in ctx.children)


@app.task
def square(number: int) -> int:
    return number * number


if __name__ == "__main__":
    print(fetch.call("Rome").then(warmest).enqueue().result(timeout=30))
    cities = group(*(fetch.call(city).then(warmest) for city in ("Rome", "Bergen")), on_failure="fail")
    print(cities.then(report, "Today").enqueue().result(timeout=30))
    print(total.enqueue([1, 2, 3]).result(timeout=30))

# prints:
# 8
# Today: [8, 12]
# 14
