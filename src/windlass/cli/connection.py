"""Options that select the engine, shared by all commands, and the service they open."""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

import click

from windlass.core.errors import EngineUnavailable
from windlass.sdk.deployment import AnyStore, make_service, make_store
from windlass.service import Service
from windlass.settings import Settings, load
from windlass.store.store import Store
from windlass.store.topology import reachability

from .audit.service import AuditedService
from .names.suggestions import suggesting

NOTICE_AFTER_S = 2.0  # of waiting
REACHED_WITHIN_S = 0.5  # then it is tested whether anything at the address answers
NODES_WITHIN_S = 1.9  # all of them together; a busy engine may need a second
ANSWER_WITHIN_S = 2.0
T = TypeVar("T")
CommandFunction = Callable[..., Any]

_OPTIONS = (
    click.option(
        "--url",
        help="URL of an engine, e.g. redis://localhost:6379/0 (docs/topologies.md). Default: the embedded engine. "
        "Or the URL of a server, http://…, with the token in WINDLASS_TOKEN.",
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
        settings, _ = load(self._asdict() | more, option_form="--{}")
        return settings

    def arguments(self) -> list[str]:
        """Return the options as arguments for another process."""
        options = (("--url", self.url), ("--data-dir", self.data_dir), ("--namespace", self.namespace))
        return [word for option, value in options if value is not None for word in (option, value)]

    @contextlib.contextmanager
    def service(self) -> Iterator[Service]:
        """Open the service of an engine, or of a server at an http URL. If it is missing, this is reported before the
        command asks the user anything. Operations that need the engine report that a server does not suffice."""
        settings, origins = load(self._asdict(), option_form="--{}")
        store = make_store(settings)
        is_patient = any(origin.name == "patience" and origin.source != "default" for origin in origins)
        try:
            _open(store, is_patient)
            yield make_audited_service(store)
        finally:
            store.close_sync()


def make_audited_service(store: AnyStore) -> Service:
    """Return a service whose changes are in the audit log. A server writes the entries of what it is asked to do."""
    return AuditedService(store) if isinstance(store, Store) else make_service(store)


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
        with engine.service() as service, suggesting(service, options.values()):
            return command(service, *args, **options)

    return wrapper


class BackgroundCall(Generic[T]):
    """Call in a thread of its own, so that a host name that cannot be resolved does not block the command."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._found: list[T] = []
        self._raised: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._found.append(self._call())
        except BaseException as error:
            self._raised.append(error)

    def result(self, limit_s: float | None = None) -> T | None:
        """Return the result, or None if there is none within the time limit. Errors of the call are raised here."""
        self._thread.join(limit_s)
        if self._raised:
            raise self._raised[0]
        return self._found[0] if self._found else None


def run_within(limit_s: float, read: Callable[[], T]) -> T | None:
    """Run with a time limit. Return None when the time is up; the errors of the function are raised here."""
    return BackgroundCall(read).result(limit_s)


def _open(store: AnyStore, is_patient: bool) -> None:
    # Only serve and doctor warn about risky engine settings; other commands are often used in scripts.
    logging.getLogger("windlass").addHandler(logging.NullHandler())
    with notify_if_slow(store):
        if is_patient:
            store.open_sync()
        else:
            open_or_report(store)


def open_or_report(store: AnyStore) -> None:
    """Open a store. If nothing that could be its engine or server answers, report that within seconds: a person waits.
    Otherwise, for example while an engine loads its data, wait as long as a program does."""
    opening = BackgroundCall(store.open_sync)
    if opening.result(REACHED_WITHIN_S) is not None:
        return
    found = run_within(ANSWER_WITHIN_S, lambda: find_unreachable(store))
    if found is None:  # a name that is not resolved, or a server that is silent
        found = f"no answer within {REACHED_WITHIN_S + ANSWER_WITHIN_S:g} s"
    if found and opening.result(0) is None:
        raise EngineUnavailable(describe_unreachable(store, found))
    opening.result()


def find_unreachable(store: AnyStore) -> str:
    """Return why nothing answers; empty if something does, or if a command starts the engine."""
    if isinstance(store, Store):
        return "" if store.is_embedded else reachability.find_unreachable(store.endpoint, NODES_WITHIN_S)
    from .server_reachability import find_unreachable as find_unreachable_server

    return find_unreachable_server(store.endpoint)


def describe_unreachable(store: AnyStore, why: str) -> str:
    is_engine = isinstance(store, Store)
    what, runs = ("engine", "the engine") if is_engine else ("server", "`windlass serve`")
    if is_engine and getattr(store.endpoint, "unix_path", None):
        check = "Check the path of the socket, and that the engine runs on this machine."
    else:
        check = f"Check the address and the port, that {runs} runs there, and that no firewall blocks it."
    return f"Cannot reach the {what} at {store.endpoint}: {why}. {check} WINDLASS_PATIENCE=30s waits longer."


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
