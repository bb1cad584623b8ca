"""Log lines of running jobs carry the job's fields, as text and as JSON."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine_process import EngineProcess
from windlass import Backoff, Context, Windlass
from windlass.sdk.worker.logs import JobFilter, JsonFormatter, TextFormatter

OpenStream = Callable[[logging.Formatter], io.StringIO]
shop = logging.getLogger("shop.mail")


@pytest.fixture
def open_stream() -> Iterator[OpenStream]:
    """Attach a formatter to the logger and return its stream."""
    handler = logging.StreamHandler(io.StringIO())
    handler.addFilter(JobFilter())

    def start(form: logging.Formatter) -> io.StringIO:
        handler.setFormatter(form)
        shop.addHandler(handler)
        shop.setLevel(logging.INFO)
        shop.propagate = False
        return handler.stream

    yield start
    shop.removeHandler(handler)
    shop.propagate = True


@pytest.mark.anyio
async def test_each_line_names_its_job(app: Windlass, working: Any, open_stream: OpenStream) -> None:
    @app.task(queue="mail", retry=Backoff(tries=2, base=0))
    async def send(ctx: Context, order: int) -> None:
        shop.info("order %d", order)
        if ctx.attempt == 1:
            raise OSError

    @app.task(queue="mail")
    def pack(order: int) -> None:
        shop.info("order %d", order)

    @app.task(queue="mail")
    def wrap(order: int) -> None:
        shop.info("order %d", order)

    stream = open_stream(JsonFormatter())
    async with working(app):
        handles = [await send.aenqueue(1), await pack.aenqueue(2)]
        for handle in handles:
            await handle
        app.middlewares.append(lambda ctx, call_next: call_next())
        handles.append(await wrap.aenqueue(3))
        await handles[-1]
    shop.info("order %d", 4)
    lines = sorted(map(json.loads, stream.getvalue().splitlines()), key=lambda line: (line["message"], line["at"]))
    assert [(line["message"], line.get("task_name"), line.get("attempt")) for line in lines] == [
        ("order 1", "send", 1),
        ("order 1", "send", 2),
        ("order 2", "pack", 1),
        ("order 3", "wrap", 1),
        ("order 4", None, None),
    ]
    sent, packed, wrapped = (handle.id for handle in handles)
    assert [line.get("job_id") for line in lines] == [sent, sent, packed, wrapped, None]
    assert {line.get("queue_name") for line in lines[:4]} == {"mail"}
    assert {(line["level"], line["logger"]) for line in lines} == {("info", "shop.mail")}


@pytest.mark.anyio
async def test_a_line_of_text(app: Windlass, working: Any, open_stream: OpenStream) -> None:
    @app.task(queue="mail")
    def send() -> None:
        shop.warning("no address")

    stream = open_stream(TextFormatter())
    async with working(app):
        handle = await send.aenqueue()
        await handle
    shop.info("closed")
    in_job, outside = stream.getvalue().splitlines()
    assert in_job.endswith(f"WARNING shop.mail: no address [send {handle.id}, attempt 1, queue mail]")
    assert outside.endswith("INFO shop.mail: closed")


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_no_line_is_lost_because_of_its_values(open_stream: OpenStream) -> None:
    stream = open_stream(JsonFormatter())
    shop.info("more", extra={"order": 7, "attempt": 2, "path": Path("a"), "unspeakable": Unspeakable()})
    shop.info("odd \ud800", extra={"huge": 1.5, "keys": {("a", 1): 2}, "far": 2**70})
    try:
        raise ValueError("why")
    except ValueError:
        shop.exception("it\nfailed")
    more, odd, failed = map(json.loads, stream.getvalue().splitlines())
    assert (more["order"], more["attempt"], more["path"]) == (7, 2, "a")
    assert "no" in more["unspeakable"]
    assert odd["message"] == "odd \\ud800"
    assert odd["far"] in (2**70, str(2**70))
    assert failed["message"] == "it\nfailed"
    assert (failed["error"]["type"], failed["error"]["message"]) == ("ValueError", "why")
    assert 'raise ValueError("why")' in failed["error"]["traceback"]


def test_a_library_writes_nothing_by_itself() -> None:
    script = "import logging, windlass; logging.getLogger('windlass.worker').warning('!'); print(logging.root.handlers)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_worker_process_writes_json(engine: EngineProcess, tmp_path: Path) -> None:
    (tmp_path / "shop_tasks.py").write_text(
        "import logging, windlass\n"
        "app = windlass.Windlass()\n"
        "@app.task\n"
        "def send(order: int) -> None:\n"
        "    logging.getLogger('elsewhere').warning('order %d', order)\n"
        "@app.task(pool='process')\n"
        "def pack(order: int) -> None:\n"
        "    logging.getLogger('elsewhere').warning('order %d', order)\n"
    )
    environment = {
        **os.environ,
        "WINDLASS_URL": engine.unix_url,
        "WINDLASS_NAMESPACE": f"logs{os.getpid()}",
        "WINDLASS_LOG_FORMAT": "json",
    }
    run = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True}
    enqueue = "from shop_tasks import *; print(send.enqueue(7).id, pack.enqueue(8).id)"
    enqueued = subprocess.run([sys.executable, "-c", enqueue], check=True, **run).stdout.split()
    worker = [sys.executable, "-m", "windlass", "worker", "shop_tasks:app", "--burst"]
    lines = [json.loads(line) for line in subprocess.run(worker, check=True, **run).stderr.splitlines()]
    said = sorted((line for line in lines if line["logger"] == "elsewhere"), key=lambda line: line["message"])
    assert [(line["message"], line["task_name"]) for line in said] == [("order 7", "send"), ("order 8", "pack")]
    assert [line["job_id"] for line in said] == enqueued
    assert "windlass.worker" in {line["logger"] for line in lines}


@pytest.mark.parametrize("form", [TextFormatter(), JsonFormatter()], ids=["text", "json"])
def test_control_characters_are_written_as_escapes(open_stream: OpenStream, form: logging.Formatter) -> None:
    evil = "\x9b31m\u202eturned\u061c\x7f"
    stream = open_stream(form)
    try:
        raise ValueError(evil)
    except ValueError:
        shop.exception("no order %s", evil, extra={"note": evil})
    said = stream.getvalue()
    assert not set(said) & {"\x9b", "\u202e", "\u061c", "\x7f"}
    if isinstance(form, JsonFormatter):
        line = json.loads(said)
        assert (line["message"], line["note"], line["error"]["message"]) == (f"no order {evil}", evil, evil)
    else:
        assert "no order \\x9b31m\\u202eturned\\u061c\\x7f\nTraceback" in said
