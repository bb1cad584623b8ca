"""Entry point of a worker's child processes. It sets up logging as in the worker."""

from __future__ import annotations

from windlass.processes.child import Terminated, main
from windlass.processes.frames import HelloMessage

__all__ = ["Terminated"]


def configure_child_logging(hello: HelloMessage) -> None:
    """Configure logging before the application is loaded, so that the application's own configuration wins."""
    if hello.logging is not None:
        from .logs import configure_logging

        configure_logging("json" if hello.logging[0] == "json" else "text", hello.logging[1])


if __name__ == "__main__":
    main(configure_child_logging)
