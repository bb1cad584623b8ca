"""Application of no-op tasks, with a worker in its own process.

`python -m bench.programs.sdk_app drain SLOTS` runs the queued jobs, `… wait SLOTS` runs timed jobs until the last one
arrives."""

import json
import sys
from time import monotonic_ns

import uvloop

from windlass import Windlass, Worker

app = Windlass()  # at WINDLASS_URL
delivered: list[int] = []
latencies_us: list[float] = []


@app.task(queue="bench")
async def in_loop(number: int) -> None:
    delivered.append(number)


@app.task(queue="bench")
def in_thread(number: int) -> None:
    delivered.append(number)


@app.task(queue="bench", pool="process")
def in_process(number: int) -> None:
    pass


@app.task(queue="bench")
async def timed(sent_at_ns: int) -> None:
    if sent_at_ns:
        latencies_us.append((monotonic_ns() - sent_at_ns) / 1000)
    else:
        worker.stop()


worker: Worker


async def _work(kind: str, slots: int) -> tuple[int, int]:
    global worker  # noqa: PLW0603 (the last timed job stops it)
    worker = Worker(
        app, queues=["bench"], concurrency=slots, burst=kind == "drain", target="bench.programs.sdk_app:app"
    )
    began_at_ns = monotonic_ns()
    await worker.run()
    ended_at_ns = monotonic_ns()
    await app.aclose()
    return began_at_ns, ended_at_ns


def main() -> None:
    kind, slots = sys.argv[1:]
    print("ready", flush=True)
    if kind == "drain":
        sys.stdin.readline()
    began_at_ns, ended_at_ns = uvloop.run(_work(kind, int(slots)))
    report = {
        "began_at_ns": began_at_ns,
        "ended_at_ns": ended_at_ns,
        "done": worker.done,
        "delivered": delivered,
        "latencies_us": latencies_us,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
