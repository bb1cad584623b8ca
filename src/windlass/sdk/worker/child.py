"""A child process of a worker: one of the pool's, whose log lines look like the worker's."""

from __future__ import annotations

from windlass.processes.child import Terminated, main
from windlass.processes.frames import Hello

__all__ = ["Terminated"]


def log_like_the_worker(hello: Hello) -> None:
    """Configure logging before the application is loaded, so that the application has the last word."""
    if hello.logging is not None:
        from .logs import configure_logging

        configure_logging("json" if hello.logging[0] == "json" else "text", hello.logging[1])


if __name__ == "__main__":
    main(log_like_the_worker)
