"""A server that lies: the command line prints nothing that a terminal interprets, ends in time and with an exit code of
its own, and sends its token to no other server."""

from __future__ import annotations

import json
import math
import socket
from pathlib import Path

import msgspec
import pytest

from tests.migration.source_redis import SourceRedis
from tests.support.console import CliResult, run_with_settings
from tests.support.profiles import IS_DEEP
from windlass.core.errors import EngineUnavailable, EngineUnsuitable, TooLarge
from windlass.sdk.remote import async_session, request, sync_session
from windlass.sdk.remote.address import parse_server_url
from windlass.sdk.remote.events import RemoteEventStream
from windlass.sdk.remote.store import RemoteStore, ServerInfo
from windlass.service import Service

from .command_cases import CASES, Target
from .lying_server import MSGPACK, Handler, Lie, change_leaves, hostile_server, lying_proxy
from .test_every_command import READS

TOKEN = "wl_very_secret_token_of_the_operator"  # noqa: S105
JOB = "01a1f53e-ffa5-7000-9aa7-32106db5c783"
CONTROL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\r\x00\x7f"
FORBIDDEN = set(CONTROL) - set("]0;owned[2J31m")
PROBLEM = "application/problem+json"
MIB = 2**20


def run_against(url: str, *arguments: str, token: str = TOKEN) -> CliResult:
    """Run a command. Any exception other than an exit fails the test."""
    settings = {"WINDLASS_URL": url, "WINDLASS_TOKEN": token, "WINDLASS_PATIENCE": "0s"}
    done = run_with_settings(*arguments, settings=settings)
    shown = done.out + done.err
    assert not FORBIDDEN & set(shown), repr(shown)
    assert token not in shown
    return done


def answering(status: int, media: str, body: bytes, **headers: str) -> type[Handler]:
    """Return a server that describes itself rightly and answers all other requests in this way."""

    class OneAnswer(Handler):
        def respond(self) -> None:
            if self.path.endswith("/info"):
                self.send_body(200, MSGPACK, msgspec.msgpack.encode({"version": "1", "partitions": 1}))
            else:
                self.send_body(status, media, body, **headers)

    return OneAnswer


def problem(code: str, status: int) -> bytes:
    return json.dumps(
        {"type": "x", "title": "t", "status": status, "code": code, "detail": f"No {CONTROL} such."}
    ).encode()


COMMANDS = (
    ["queues", "ls"], ["jobs", "show", JOB], ["jobs", "watch", JOB], ["enqueue", "mail", "send"], ["doctor"],
    ["tokens", "ls"], ["alerts", "ls"], ["export"], ["callbacks", "redeliver", JOB],
    ["jobs", "signal-url", JOB, "approval"],
)  # fmt: skip


@pytest.mark.parametrize(
    ("status", "media", "body"),
    [
        *((status, PROBLEM, problem(code, status)) for status, code in ((404, "unknown_job"), (409, "x"), (500, "y"))),
        (400, f"text/html{CONTROL[:10]}\x9b", b"no"),
        (200, "text/html", b"<html>Welcome</html>"),
        (200, MSGPACK, b""),
        (200, MSGPACK, b"\x81\xa1a" * 200_000 + b"\xc0"),
        (200, MSGPACK, b"\xdf\xff\xff\xff\xff"),
        (200, MSGPACK, msgspec.msgpack.encode({"results": [], "queues": None, "items": 7})),
        (400, PROBLEM, b'{"x":' + b"[" * 200_000 + b"]" * 200_000 + b"}"),
        (204, MSGPACK, b""),
        (503, PROBLEM, problem("unavailable", 503)),
    ],
)
def test_any_answer_is_an_error_in_words(status: int, media: str, body: bytes) -> None:
    with hostile_server(answering(status, media, body)) as url:
        for command in COMMANDS:
            done = run_against(url, *command)
            assert (done.code, done.err.startswith("windlass: ")) in ((1, True), (75, True), (2, True)), done


def test_a_redirect_is_not_followed_and_the_token_stays() -> None:
    received: list[str] = []

    class Thief(Handler):
        def respond(self) -> None:
            received.append(str(self.headers))
            self.send_body(200, MSGPACK, b"\xc0")

    with hostile_server(Thief) as elsewhere:
        for status in (301, 302, 303, 307, 308):
            with hostile_server(answering(status, "text/html", b"", Location=f"{elsewhere}/api/v1/queues")) as url:
                assert "not a Windlass server" in run_against(url, "queues", "ls").err
                assert run_against(url, "export").code == 1
    assert received == []


# Answers of a real server, changed


def _worst(value: object) -> object:
    """Change texts and numbers, but not ids, without which a command ends early."""
    if isinstance(value, str):
        return value if len(value) == len(JOB) else value + CONTROL
    return 2**63 - 1 if type(value) is int else value


LIES: dict[str, Lie] = {"worst": _worst, "null": lambda value: None}
MORE_LIES: dict[str, Lie] = {
    "control characters in ids too": lambda value: value + CONTROL if isinstance(value, str) else value,
    "negative numbers": lambda value: -(2**63) if type(value) is int else value,
    "no number": lambda value: math.nan if isinstance(value, float) else value,
    "nothing": lambda value: type(value)() if value is not None else None,
}
WRITES = ("enqueue", "jobs cancel", "jobs signal-url", "flows resume", "schedules run", "workers stop", "queues scale")
TOLD_LIES = tuple((LIES | MORE_LIES if IS_DEEP else LIES).values())


@pytest.mark.parametrize("engine", ["valkey"], indirect=True)
def test_lies_in_answers_reach_no_terminal(
    service: Service, served: str, admin: str, tmp_path: Path, old: SourceRedis
) -> None:
    place = Target(service, tmp_path, old.url)
    for name in dict.fromkeys((*READS, "queues show", "workers ls", "top", "audit", "doctor", *WRITES)):
        if name == "tokens ls":  # its case creates a token that another case has created
            continue
        arguments = CASES[name](place)
        for lie in TOLD_LIES:
            with lying_proxy(served, lambda document, lie=lie: change_leaves(document, lie)) as url:  # type: ignore[misc]
                for form in (arguments, [text for text in arguments if text != "--json"])[not IS_DEEP :]:
                    assert run_against(url, *name.split(), *form, token=admin).code in (0, 1, 2, 75)


# Bodies without end


class Endless(Handler):
    """A body that never ends. `sent` counts its bytes."""

    status, sent, is_chunked = 200, 0, False

    def respond(self) -> None:
        if self.path.endswith("/info") and self.status == 200:
            return self.send_body(200, MSGPACK, msgspec.msgpack.encode({"version": "1", "partitions": 1}))
        self.send_response(self.status)
        self.send_header("Content-Type", MSGPACK if self.status == 200 else PROBLEM)
        if self.is_chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Connection", "close")
        self.end_headers()
        part = b" " * 65_536
        while type(self).sent < 64 * MIB:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part) if self.is_chunked else part)
            type(self).sent += len(part)
        return None


def endless(status: int, *, is_chunked: bool) -> type[Endless]:
    return type("Endless", (Endless,), {"status": status, "is_chunked": is_chunked})


@pytest.fixture
def small_responses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the bound of a response, which is larger than a test can send."""
    monkeypatch.setattr(request, "RESPONSE_MAX", 2 * MIB)
    assert async_session.response_max is sync_session.response_max is request.response_max


@pytest.mark.parametrize("is_chunked", [True, False])
@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.usefixtures("small_responses")
def test_a_body_without_end_ends(status: int, is_chunked: bool) -> None:
    for command in (["queues", "ls"], ["enqueue", "mail", "send"], ["jobs", "watch", JOB]):
        handler = endless(status, is_chunked=is_chunked)
        with hostile_server(handler) as url:
            done = run_against(url, *command)
        assert (done.code, "sent a response of more than" in done.err) == (1, True), done
        assert handler.sent < 32 * MIB  # it was not read to the end


@pytest.mark.anyio
@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.usefixtures("small_responses")
async def test_a_body_without_end_ends_in_an_event_loop(status: int) -> None:
    handler = endless(status, is_chunked=True)
    with hostile_server(handler) as url:
        store = RemoteStore(parse_server_url(url), patience_s=0)
        with pytest.raises(EngineUnsuitable, match="sent a response of more than"):
            await store.perform(request.get("/queues", ServerInfo))
        await store.close()
    assert handler.sent < 32 * MIB


class Dripping(Handler):
    """A body that comes byte by byte, each in time."""

    def respond(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000000000")
        self.end_headers()
        while not self.wfile.closed:
            self.wfile.write(b"x")
            self.wfile.flush()


def test_a_body_that_drips_ends_with_the_time_of_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "RESPONSE_TIMEOUT_S", 0.2)
    with hostile_server(Dripping) as url:
        store = RemoteStore(parse_server_url(url), patience_s=0)
        with pytest.raises(EngineUnavailable, match="no whole response within"):
            store.run_sync(_one(request.get("/queues", ServerInfo)))
        store.close_sync()


def _one(asked: request.ApiRequest) -> request.RequestFlow[object]:
    return (yield asked)


def test_a_connection_is_reused_after_a_whole_answer() -> None:
    opened: set[tuple[str, int]] = set()

    class Counting(Handler):
        def respond(self) -> None:
            opened.add(self.client_address)
            self.send_body(200, MSGPACK, msgspec.msgpack.encode({"version": "1", "partitions": 1}))

    with hostile_server(Counting) as url:
        store = RemoteStore(parse_server_url(url), patience_s=0)
        for _ in range(3):
            store.run_sync(_one(request.get("/info", ServerInfo)))
        store.close_sync()
    assert len(opened) == 1


def test_an_answer_that_is_cut_off_is_lost() -> None:
    class Cut(Handler):
        def respond(self) -> None:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n\x82\xa7version\xa11\xaapartitions\x01")
            self.connection.shutdown(socket.SHUT_RDWR)

    with hostile_server(Cut) as url:
        assert run_against(url, "queues", "ls").code == 75


# Event streams


def streaming(frames: bytes) -> type[Handler]:
    class Streaming(Handler):
        def respond(self) -> None:
            if self.path.endswith("/info"):
                return self.send_body(200, MSGPACK, msgspec.msgpack.encode({"version": "1", "partitions": 1}))
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + frames)
            self.close_connection = True
            return None

    return Streaming


FIRST = b'id: 1-1\nevent: queued\ndata: {"kind":"queued","at_ms":1,"queue":"q"}\n\n'
WRONG_FRAMES = (
    b"event: finished\ndata: [[[[\n\n",
    b'data: {"kind":"exploded"}\n\n',
    b'id: \xff\nevent: \xff\ndata: {"kind":"finished","job":"x","at_ms":1}\n\n',
    b'data: {"kind":"value","at_ms":1,"value_base64":"?","value_codec":"x"}\n\n',
    b'data: {"at_ms":' + b"[" * 200_000 + b"\n\n",
    b"data: " + b"x" * (5 * MIB),
)


@pytest.mark.parametrize("frames", WRONG_FRAMES, ids=range(len(WRONG_FRAMES)))
@pytest.mark.parametrize("before", [b"", FIRST], ids=["first", "later"])
def test_an_event_stream_of_another_shape_is_refused(frames: bytes, before: bytes) -> None:
    with hostile_server(streaming(before + frames)) as url:
        store = RemoteStore(parse_server_url(url), patience_s=0)
        with pytest.raises((EngineUnsuitable, TooLarge)):
            list(RemoteEventStream(store, "", "q", b""))
        store.close_sync()


@pytest.mark.anyio
@pytest.mark.parametrize("frames", WRONG_FRAMES, ids=range(len(WRONG_FRAMES)))
async def test_an_event_stream_of_another_shape_is_refused_in_an_event_loop(frames: bytes) -> None:
    with hostile_server(streaming(FIRST + frames)) as url:
        store = RemoteStore(parse_server_url(url), patience_s=0)
        with pytest.raises((EngineUnsuitable, TooLarge)):
            _ = [event async for event in RemoteEventStream(store, "", "q", b"")]
        await store.close()
