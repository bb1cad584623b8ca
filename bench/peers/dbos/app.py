"""DBOS as its documentation describes it: workflows and steps are decorated functions, and their outcomes are rows of
the system database. Async workflows run on the event loop, the others in DBOS's threads. Settings have their defaults
except for `THREADS`."""

import asyncio
import sys
import threading
from collections.abc import Callable

from dbos import DBOS, DBOSConfig
from stepping import URL, WARM_UP_STEPS, Spell, is_right, note, receipt

# With a fixed executor and version, a restarted process recovers the workflows of the process that was killed.
CONFIG: DBOSConfig = {
    "name": "bench",
    "system_database_url": URL,
    "log_level": "ERROR",
    "executor_id": "bench",
    "application_version": "1",
}
# Async workflows call the database in threads. With as many as DBOS starts by default they wait for each other: of 2, 4
# and 8 threads and the default, 4 were the fastest on two cores. For workflows in threads the default was as fast.
THREADS = 4
if "async" in sys.argv:
    CONFIG["max_executor_threads"] = THREADS
DBOS(config=CONFIG)


@DBOS.step()
async def charge(number: int) -> dict:
    return receipt(number)


@DBOS.workflow()
async def order(steps: int) -> int:
    for number in range(steps):
        await charge(number)
    return steps


@DBOS.step()
def charge_in_thread(number: int) -> dict:
    return receipt(number)


@DBOS.workflow()
def order_in_thread(steps: int) -> int:
    for number in range(steps):
        charge_in_thread(number)
    return steps


@DBOS.step()
async def recorded(path: str, number: int, hangs_at: int) -> int:
    if not note(path, number) and number == hangs_at:
        await asyncio.Event().wait()
    return number


@DBOS.workflow()
async def recorded_order(path: str, steps: int, hangs_at: int) -> int:
    for number in range(steps):
        await recorded(path, number, hangs_at)
    return steps


async def run_async(workflows: int, waves: int, steps: int) -> None:
    DBOS.launch()
    await order(WARM_UP_STEPS)
    with Spell():
        for _ in range(waves):
            starts = (DBOS.start_workflow_async(order, steps) for _ in range(workflows))
            handles = await asyncio.gather(*starts)
            results = await asyncio.gather(*(handle.get_result() for handle in handles))
            assert is_right(results, steps)


def run_in_threads(workflows: int, waves: int, steps: int) -> None:
    DBOS.launch()
    order_in_thread(WARM_UP_STEPS)
    with Spell():
        for _ in range(waves):
            handles = [DBOS.start_workflow(order_in_thread, steps) for _ in range(workflows)]
            assert is_right([handle.get_result() for handle in handles], steps)


async def begin(path: str, steps: int, hangs_at: int) -> None:
    DBOS.launch()
    handle = await DBOS.start_workflow_async(recorded_order, path, steps, hangs_at)
    print("ready", flush=True)
    await handle.get_result()


def work() -> None:
    """Recover the workflows of this executor and version, as every launch does."""
    DBOS.launch()
    print("ready", flush=True)
    threading.Event().wait()


def main() -> None:
    task, *words = sys.argv[1:]
    if task == "run":
        counts = [int(word) for word in words[1:]]
        ways: dict[str, Callable[[], object]] = {
            "async": lambda: asyncio.run(run_async(*counts)),
            "threads": lambda: run_in_threads(*counts),
        }
        ways[words[0]]()
    elif task == "begin":
        asyncio.run(begin(words[0], int(words[1]), int(words[2])))
    else:
        work()


if __name__ == "__main__":
    main()
