"""Tests of the access log: one line of JSON for each request, written outside the event loop."""

from __future__ import annotations

import io
import itertools
import logging
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from windlass.web.app import access_log
from windlass.web.app.access_log import AccessLog
from windlass.web.listener.messages import Client, Head

_numbers = itertools.count()
CLIENT = Client("192.0.2.7", False)


def _head(path: str = "/api/v1/jobs") -> Head:
    return Head("POST", path, "token=secret", {"authorization": "Bearer secret"}, "192.0.2.7", "enqueue", "shop")


def _logger() -> logging.Logger:
    return logging.getLogger(f"windlass.access.test{next(_numbers)}")


class KeptRecords(logging.Handler):
    def __init__(self, before: Callable[[], Any] = lambda: None) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._before = before

    def emit(self, record: logging.LogRecord) -> None:
        self._before()
        self.lines.append(record.getMessage())


def test_a_line_has_the_client_the_request_and_the_response() -> None:
    logger, kept = _logger(), KeptRecords()
    logger.addHandler(kept)
    log = AccessLog(logger)
    log.open()
    log.on_answer(_head(), 201, 94, 0.0031234, CLIENT)
    log.on_answer(None, 400, 12, 0.0, CLIENT)
    log.close()
    first, second = (msgspec.json.decode(line) for line in kept.lines)
    assert first.pop("at").endswith("+00:00")
    assert first == {
        "logger": "windlass.access",
        "peer": "192.0.2.7",
        "who": "shop",
        "method": "POST",
        "path": "/api/v1/jobs",
        "status": 201,
        "bytes": 94,
        "ms": 3.123,
        "operation": "enqueue",
    }
    assert (second["method"], second["status"]) == ("", 400)
    assert "secret" not in "".join(kept.lines)


def test_nothing_that_a_client_sends_breaks_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = io.StringIO()
    monkeypatch.setattr("sys.stderr", errors)
    log = AccessLog(_logger())
    log.open()
    log.on_answer(_head('/a"\n{}\u2028\x00'), 404, 0, 0.0, CLIENT)
    for _ in range(2 * access_log.BATCH_LINES):
        log.on_answer(_head(), 201, 0, 0.0, CLIENT)
    log.close()
    lines = errors.getvalue().split("\n")
    assert lines.pop() == ""
    assert len(lines) == 1 + 2 * access_log.BATCH_LINES
    assert msgspec.json.decode(lines[0])["path"] == '/a"\n{}\u2028\x00'


def test_a_blocked_writer_does_not_block_requests_and_memory_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_log, "PENDING_MAX", 100)
    is_writing, may_go_on = threading.Event(), threading.Event()

    def hang() -> None:
        is_writing.set()
        may_go_on.wait(60)

    logger, kept = _logger(), KeptRecords(hang)
    logger.addHandler(kept)
    log = AccessLog(logger)
    log.open()
    log.on_answer(_head(), 201, 0, 0.0, CLIENT)
    assert is_writing.wait(60)
    for _ in range(1000):
        log.on_answer(_head(), 201, 0, 0.0, CLIENT)
    may_go_on.set()
    log.close()
    assert len(kept.lines) == 1 + 100 + 1
    assert msgspec.json.decode(kept.lines[-1])["dropped"] == 900


def test_the_own_handler_is_removed_on_close() -> None:
    logger = _logger()
    log = AccessLog(logger)
    log.open()
    assert len(logger.handlers) == 1
    log.close()
    assert logger.handlers == []
    assert logger.propagate


def test_control_characters_are_written_as_escapes() -> None:
    logger, kept = _logger(), KeptRecords()
    logger.addHandler(kept)
    log = AccessLog(logger)
    log.open()
    log.on_answer(Head("GET", "/", "", {}, "192.0.2.7", "queues", "\x9b31m\u202e"), 200, 1, 0.0, CLIENT)
    log.close()
    [line] = kept.lines
    assert line.isprintable()
    assert msgspec.json.decode(line)["who"] == "\x9b31m\u202e"
