"""Actions in a forked child, as programs with os.fork or multiprocessing run them."""

import os
from collections.abc import Callable


def run_in_fork(action: Callable[[], str]) -> str:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, action().encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(pid, 0)
    with os.fdopen(reading) as answer:
        return answer.read()
