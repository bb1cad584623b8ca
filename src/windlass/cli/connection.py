"""Which engine a command talks to: the options that all commands share, and the service behind them."""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import click

from windlass import server
from windlass.service import Service
from windlass.settings import Settings, load
from windlass.store.store import Store

PATIENT_S = 2.0  # silence that long makes people wonder
Command = Callable[..., Any]

_OPTIONS = (
    click.option(
        "--url", help="Engine to use instead of the embedded one, e.g. redis://localhost:6379/0 (docs/topologies.md)."
    ),
    click.option("--data-dir", help="Directory of the embedded engine."),
    click.option("--namespace", help="Prefix of all keys."),
)


class Engine(NamedTuple):
    """What was said on the command line; the rest comes from the environment, windlass.toml and defaults."""

    url: str | None
    data_dir: str | None
    namespace: str | None

    def settings(self, **more: Any) -> Settings:
        settings, _ = load(self._asdict() | more)
        return settings

    def words(self) -> list[str]:
        """The same for another process."""
        said = (("--url", self.url), ("--data-dir", self.data_dir), ("--namespace", self.namespace))
        return [word for option, value in said if value is not None for word in (option, value)]

    @contextlib.contextmanager
    def service(self) -> Iterator[Service]:
        """Open, so that an engine that is not there is said before anything is asked of people."""
        store = server.build_store(self.settings())
        try:
            _open(store)
            yield Service(store)
        finally:
            store.close_sync()


def engine_options(command: Command) -> Command:
    """Gives a command --url, --data-dir and --namespace, as its argument `engine`."""

    @functools.wraps(command)
    def gathered(*args: Any, url: str | None, data_dir: str | None, namespace: str | None, **options: Any) -> Any:
        return command(*args, engine=Engine(url, data_dir, namespace), **options)

    return functools.reduce(lambda function, option: option(function), reversed(_OPTIONS), gathered)


def connected(command: Command) -> Command:
    """The same for a command that only needs the service: it is its first argument."""

    @engine_options
    @functools.wraps(command)
    def opened(*args: Any, engine: Engine, **options: Any) -> Any:
        with engine.service() as service:
            return command(service, *args, **options)

    return opened


def _open(store: Store) -> None:
    # What is at risk in an engine is for serve and doctor to say, not for every command that a script calls.
    logging.getLogger("windlass").addHandler(logging.NullHandler())
    with say_if_waiting(store):
        store.open_sync()


@contextlib.contextmanager
def say_if_waiting(store: Store) -> Iterator[None]:
    """Say which engine is waited for when the block takes long."""
    waiting = threading.Timer(PATIENT_S, lambda: click.echo(f"Waiting for {store.endpoint} …", err=True))
    waiting.daemon = True
    waiting.start()
    try:
        yield
    finally:
        waiting.cancel()
