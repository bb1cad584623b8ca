"""Protocol between the runner and the programs whose workflows have durable steps.

It uses only the standard library, because every peer has its own environment. A program is called as

    PROGRAM run async|threads WORKFLOWS WAVES STEPS   starts WORKFLOWS workflows of STEPS steps at once and waits for
                                                      their results, WAVES times
    PROGRAM begin FILE STEPS HANGS_AT                 starts a workflow whose steps are written to FILE; step HANGS_AT
                                                      does not return when it runs for the first time
    PROGRAM work PROCESSES                            continues workflows until it is killed

with PEER_URL in the environment. With `run` it prints `ready`, starts at a line on its input and ends with one line of
JSON. With `begin` it prints `ready` when the workflow is stored.
"""

import json
import os
import resource
import sys
from time import monotonic_ns
from typing import Any

URL = os.environ.get("PEER_URL", "")
WARM_UP_STEPS = 3

_ran: list[int] = []


def receipt(number: int) -> dict[str, Any]:
    """Do the work of a measured step. Appending to a list is atomic, in threads too."""
    _ran.append(number)
    return {"receipt": f"{number:032x}", "amount": number}


def is_right(results: list[int], steps: int) -> bool:
    return all(result == steps for result in results)


def note(path: str, number: int) -> bool:
    """Write that a step runs, and by which process. Returns False for the first run of the step."""
    with open(path, "a+") as file:
        file.seek(0)
        ran_before = any(line.split()[0] == str(number) for line in file)
        file.write(f"{number} {os.getpid()} {monotonic_ns()}\n")
    return ran_before


class Spell:
    """A measured run: from the start signal to the last result."""

    def __enter__(self) -> "Spell":
        _ran.clear()
        print("ready", flush=True)
        sys.stdin.readline()
        self._cpu_us = _cpu_us()
        self._began_at_ns = monotonic_ns()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_exc: object) -> None:
        if kind is not None:
            return
        ended_at_ns = monotonic_ns()
        spent = {"seconds": (ended_at_ns - self._began_at_ns) / 1e9, "cpu_us": _cpu_us() - self._cpu_us}
        print(json.dumps({**spent, "ran": len(_ran)}), flush=True)
        os._exit(0)  # some libraries take seconds to end


def _cpu_us() -> float:
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return 1e6 * (spent.ru_utime + spent.ru_stime)
