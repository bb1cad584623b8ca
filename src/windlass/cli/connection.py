"""Options that select the engine, shared by all commands, and the service they open."""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import click

from windlass.sdk.deployment import AnyStore, make_service, make_store
from windlass.service import Service
from windlass.settings import Settings, load

NOTICE_AFTER_S = 2.0  # of waiting
T = TypeVar("T")
CommandFunction = Callable[..., Any]

_OPTIONS = (
    click.option(
        "--url",
        help="URL of an engine, e.g. redis://localhost:6379/0 (docs/topologies.md). Default: the embedded engine. "
        "Commands about jobs also take the URL of a server, http://…, with the token in WINDLASS_TOKEN.",
    ),
    click.option("--data-dir", help="Data directory of the embedded engine."),
    click.option("--namespace", help="Prefix of all keys."),
)


class EngineOptions(NamedTuple):
    """Engine options of the command line. Other settings come from the environment, windlass.toml and defaults."""

    url: str | None
    data_dir: str | None
    namespace: str | None

    def settings(self, **more: Any) -> Settings:
        settings, _ = load(self._asdict() | more)
        return settings

    def arguments(self) -> list[str]:
        """Return the options as arguments for another process."""
        options = (("--url", self.url), ("--data-dir", self.data_dir), ("--namespace", self.namespace))
        return [word for option, value in options if value is not None for word in (option, value)]

    @contextlib.contextmanager
    def service(self) -> Iterator[Service]:
        """Open the service of an engine, or of a server at an http URL. If it is missing, this is reported before the
        command asks the user anything. Operations that need the engine report that a server does not suffice."""
        store = make_store(self.settings())
        try:
            _open(store)
            yield make_service(store)
        finally:
            store.close_sync()


def engine_options(command: CommandFunction) -> CommandFunction:
    """Add --url, --data-dir and --namespace to a command, as its argument `engine`."""

    @functools.wraps(command)
    def wrapper(*args: Any, url: str | None, data_dir: str | None, namespace: str | None, **options: Any) -> Any:
        return command(*args, engine=EngineOptions(url, data_dir, namespace), **options)

    return functools.reduce(lambda function, option: option(function), reversed(_OPTIONS), wrapper)


def with_service(command: CommandFunction) -> CommandFunction:
    """Add the engine options to a command, and pass the opened service as its first argument."""

    @engine_options
    @functools.wraps(command)
    def wrapper(*args: Any, engine: EngineOptions, **options: Any) -> Any:
        with engine.service() as service:
            return command(service, *args, **options)

    return wrapper


def run_within(limit_s: float, read: Callable[[], T]) -> T | None:
    """Run in a thread, with a time limit: a host name that cannot be resolved must not block the output. Return None
    when the time is up; the errors of the function are raised here."""
    found: list[T] = []
    raised: list[Exception] = []

    def run() -> None:
        try:
            found.append(read())
        except Exception as error:
            raised.append(error)

    reader = threading.Thread(target=run, daemon=True)
    reader.start()
    reader.join(limit_s)
    if raised:
        raise raised[0]
    return found[0] if found else None


def _open(store: AnyStore) -> None:
    # Only serve and doctor warn about risky engine settings; other commands are often used in scripts.
    logging.getLogger("windlass").addHandler(logging.NullHandler())
    with notify_if_slow(store):
        store.open_sync()


@contextlib.contextmanager
def notify_if_slow(store: AnyStore) -> Iterator[None]:
    """Print which engine the command waits for if the block takes long."""
    waiting = threading.Timer(NOTICE_AFTER_S, lambda: click.echo(f"Waiting for {store.endpoint} …", err=True))
    waiting.daemon = True
    waiting.start()
    try:
        yield
    finally:
        waiting.cancel()
