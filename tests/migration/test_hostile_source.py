"""windlass migrate from a hostile source: entries and notes of any content, and a server that is no Redis."""

from __future__ import annotations

import contextlib
import json
import pickle
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import hiredis
import pytest

from tests.migration.source_redis import SourceRedis, drain
from tests.migration.test_jobber import QUEUE, entry, uuid4
from tests.support.console import CliResult, run, run_with_settings
from tests.support.profiles import IS_DEEP
from windlass.core.ids import format_id
from windlass.service import Service

DIALECTS = ("jobber", "processor", "downloader")
PASSWORD = "pass-of-the-source"  # noqa: S105
CONTROL = "\x1b]0;owned\x07\x9b2J\u202e\r"
FORBIDDEN = set("\x1b\x07\x9b\u202e\r")
Answer = bytes | Callable[[list[bytes]], bytes]


def _check(done: CliResult) -> CliResult:
    assert not FORBIDDEN & set(done.out + done.err), done
    assert PASSWORD not in done.out + done.err
    return done


# Content

STRANGE = [
    b"", b"\0" * 10, b"\xff\xfe", b"null", b"[]", b"{}", b'"x"', b"NaN", b"1e999", b"{" * 100_000,
    b'{"id":' + b"[" * 100_000,
    pickle.dumps({"id": 1}), b'{"id":"' + b"x" * 3_000_000 + b'"}', b'{"id":{"a":1},"type":[]}', b'{"id":1,"id":2}',
    json.dumps({"id": f"x{CONTROL}", "type": CONTROL, "payload": CONTROL}).encode(),
]  # fmt: skip


@pytest.mark.parametrize("engine", ["valkey"], indirect=True)
def test_strange_entries_are_left_and_the_others_moved(service: Service, old: SourceRedis) -> None:
    old.call("RPUSH", QUEUE, entry(1), *STRANGE, entry(2))
    old.call("RPUSH", f"job_queue_{CONTROL}", entry(3), *STRANGE)
    done = _check(run(service, "migrate", "jobber", "--from", old.url))
    assert done.code == 1  # entries are left
    moved = [format_id(job.id) for job in drain(service, QUEUE)]
    assert {uuid4(1), uuid4(2)} <= set(moved)
    assert old.call("LLEN", QUEUE) == len(STRANGE) + 2 - len(moved)
    assert _check(run(service, "migrate", "jobber", "--from", old.url, "--json")).code == 1


@pytest.mark.parametrize("engine", ["valkey"], indirect=True)
def test_hashes_of_any_content_are_left(service: Service, old: SourceRedis) -> None:
    for number, content in enumerate(STRANGE):
        old.call("RPUSH", "jobs_queued:q", f"uuid-{number}")
        old.call("HSET", f"uuid-{number}", "json", content)
        old.call("RPUSH", "Jobs:a", f"id-{number}")
        old.call("HSET", f"Job:id-{number}", content, content, "URL", content, "State", content)
    old.call("ZADD", "jobs_processing:q", "inf", b"\xff", "-inf", CONTROL)
    for dialect in ("processor", "downloader"):
        more = ("--download-url", "http://files.example") if dialect == "downloader" else ()
        done = _check(run(service, "migrate", dialect, "--from", old.url, *more))
        assert done.code in (0, 1)
        assert not drain(service, "q")


KEYS = (
    QUEUE, "in_process_queue", "mail_queue", "jobs_queued:q", "jobs_processing:q", "workers_idle:q", "x", "Job:x",
    "Jobs:a", "callback_queue", "aggregations", "Aggr:a",
)  # fmt: skip


@pytest.mark.parametrize("engine", ["valkey"], indirect=True)
@pytest.mark.parametrize("kind", ["string", "hash", "set", "zset", "list", "stream"])
def test_keys_of_any_type_are_no_traceback(service: Service, old: SourceRedis, kind: str) -> None:
    make: dict[str, tuple[str, ...]] = {
        "string": ("SET", "{}", "x"), "hash": ("HSET", "{}", "f", "x"), "set": ("SADD", "{}", "x"),
        "zset": ("ZADD", "{}", "1", "x"), "list": ("RPUSH", "{}", "x"), "stream": ("XADD", "{}", "*", "f", "x"),
    }  # fmt: skip
    for key in KEYS:
        old.call(*(word.format(key) for word in make[kind]))
    for dialect in DIALECTS:
        base = ("--download-url", "http://x") if dialect == "downloader" else ()
        for more in (("--dry-run",), ()):
            done = _check(run(service, "migrate", dialect, "--from", old.url, *base, *more))
            assert done.code in (0, 1), done


@pytest.mark.parametrize("engine", ["valkey"], indirect=True)
@pytest.mark.parametrize(
    "note", [b"x", b"{}", b"[" * 100_000, b'{"target":1}', b'{"target":"t","queue":"q","id":"../x"}']
)
def test_a_changed_note_of_an_interrupted_run_is_reported(service: Service, old: SourceRedis, note: bytes) -> None:
    old.call("HSET", "windlass:moving:jobber", f"id{CONTROL}", note)
    done = _check(run(service, "migrate", "jobber", "--from", old.url))
    assert (done.code, "unreadable note" in done.err) == (1, True), done
    old.call("DEL", "windlass:moving:jobber")
    old.call("SET", "windlass:moving:jobber", "x")
    assert "WRONGTYPE" in _check(run(service, "migrate", "jobber", "--from", old.url)).err


# Another server

POLITE: dict[bytes, Answer] = {
    b"AUTH": b"+OK\r\n", b"SELECT": b"+OK\r\n", b"CLIENT": b"+OK\r\n", b"PING": b"+PONG\r\n", b"TYPE": b"+list\r\n",
    b"LLEN": b":1\r\n", b"ZCARD": b":1\r\n", b"SCARD": b":1\r\n", b"EXISTS": b":0\r\n", b"HGETALL": b"*0\r\n",
    b"HMGET": b"*1\r\n$-1\r\n", b"HSCAN": b"*2\r\n$1\r\n0\r\n*0\r\n",
    b"SCAN": b"*2\r\n$1\r\n0\r\n*3\r\n$14\r\njob_queue_mail\r\n$13\r\njobs_queued:q\r\n$6\r\nJob:17\r\n",
    b"LRANGE": lambda command: b"*1\r\n$3\r\nabc\r\n" if command[2] in (b"0", b"-100") else b"*0\r\n",
    b"ZRANGE": lambda command: b"*2\r\n$3\r\nabc\r\n$1\r\n1\r\n" if command[2] == b"0" else b"*0\r\n",
}  # fmt: skip
WRONG: tuple[bytes, ...] = (
    b":5\r\n", b"$-1\r\n", b"*0\r\n", b"+OK\r\n", b"*1\r\n:1\r\n", b"$3\r\n\xff\xfe\x9b\r\n", b"*-1\r\n",
    b"nonsense\r\n", f"-ERR {CONTROL[:-1]} of {PASSWORD[:4]}\r\n".encode(), b"*2\r\n$1\r\n0\r\n*2\r\n:1\r\n$-1\r\n",
)  # fmt: skip


@contextlib.contextmanager
def other_server(changed: Mapping[bytes, Answer]) -> Iterator[str]:
    """Serve these answers by command, and the polite ones to others. An empty answer closes the connection."""

    class Other(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            reader = hiredis.Reader()
            with contextlib.suppress(ConnectionError):
                while data := self.request.recv(65_536):
                    reader.feed(data)
                    while (command := reader.gets()) is not False:
                        self._answer(command)

        def _answer(self, command: list[bytes]) -> None:
            answer: Any = {**POLITE, **changed}.get(command[0].upper(), b"-ERR unknown command\r\n")
            text = answer(command) if callable(answer) else answer
            if not text:
                raise ConnectionAbortedError
            self.request.sendall(text)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Other) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"redis://user:{PASSWORD}@127.0.0.1:{server.server_address[1]}/0"
        finally:
            server.shutdown()
            thread.join()


def migrate_from(url: str, dialect: str) -> CliResult:
    settings = {"WINDLASS_URL": "redis://127.0.0.1:1", "WINDLASS_PATIENCE": "0s", "WINDLASS_DOWNLOAD_URL": "http://x/"}
    return _check(run_with_settings("migrate", dialect, "--from", url, "--dry-run", settings=settings))


@pytest.mark.parametrize("command", [name for name in POLITE if name not in (b"AUTH", b"SELECT", b"CLIENT", b"PING")])
def test_replies_of_other_types_are_refused_in_words(command: bytes) -> None:
    for number, answer in enumerate((*WRONG, b"")):
        if command in (b"LRANGE", b"ZRANGE") and answer.startswith(b"*2"):
            continue  # a list that never ends
        with other_server({command: answer}) as url:
            for dialect in DIALECTS if IS_DEEP else (DIALECTS[number % len(DIALECTS)],):
                done = migrate_from(url, dialect)
                assert done.code in (0, 1, 75), (answer, done)
                assert done.code == 0 or "windlass: " in done.err, (answer, done)


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"+PONG\r\n" * 1000, b"\xff" * 1000, b""])
def test_a_server_that_is_no_redis(greeting: bytes) -> None:
    with other_server(dict.fromkeys((*POLITE, b"HELLO"), greeting)) as url:
        assert migrate_from(url, "jobber").code in (1, 75)
