"""Heavy computation in child processes, stopped when it takes too long or too much memory.

windlass worker processes:app -c 4
python processes.py
"""

from windlass import JobFailed, Windlass

app = Windlass()


@app.task(pool="process", timeout="10m", memory="512MiB")
def largest_prime_below(limit: int) -> int:
    for number in range(limit - 1, 1, -1):
        if all(number % divisor for divisor in range(2, int(number**0.5) + 1)):
            return number
    raise ValueError(f"there is no prime below {limit}")


@app.task(pool="process", timeout="500ms", retry=1)
def endless() -> None:
    while True:
        pass


if __name__ == "__main__":
    print(largest_prime_below.enqueue(1_000_000).result(timeout=60))
    try:
        endless.enqueue().result(timeout=60)
    except JobFailed as failure:
        print("endless:", failure.reason)

# prints:
# 999983
# endless: timeout
