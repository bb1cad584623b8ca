"""Messages per second of `windlass processor` over its pipes, in and out: enqueued jobs, and jobs from assignment to
finish. The client of the pipes shares the machine."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from statistics import quantiles

from bench.engine import Engine
from bench.figures import Setting, Table, in_turns, number, spread

ADDED, WORKED = 40_000, 20_000
WORKERS = 200
SAMPLES = 400
ROOT = Path(__file__).resolve().parents[2]
WORKER = b"aaaaaaaa-0000-4000-8000-%012d"
JOB = b"bbbbbbbb-0000-4000-8000-%012d"
LINE = (
    b'{"topic":"default/job_queue/%b","service_name":"bench","service_uuid":"%b","service_host":"here",'
    b'"created_at":"%b","payload":{"queue_name":"q"%b}}\n'
)
LIST = LINE % (b"list_queue_dispatched", b"x", b"", b"")


def _now() -> bytes:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z").encode()


def _add(job: int, now: bytes) -> bytes:
    return LINE % (b"add_job", b"producer", now, b',"uuid":"' + JOB % job + b'","command":"noop","args":[]')


def _said(word: bytes, worker: bytes, uuid: bytes, now: bytes) -> bytes:
    return LINE % (b"workers/" + worker + b"/" + word, worker, now, b',"uuid":"' + uuid + b'"')


class Talk:
    """Client of the pipes. It writes from a separate thread, so that a full pipe does not block reading."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._to_it, self._from_it = process.stdin, process.stdout
        self._left = b""

    def say(self, data: bytes) -> None:
        self._to_it.write(data)
        self._to_it.flush()

    def begin_saying(self, data: bytes) -> threading.Thread:
        thread = threading.Thread(target=self.say, args=(data,))
        thread.start()
        return thread

    def heard(self) -> list[bytes]:
        """Return all received lines."""
        *lines, self._left = (self._left + os.read(self._from_it.fileno(), 1 << 20)).split(b"\n")
        return lines

    def until_answered(self) -> None:
        while not any(b"_response" in line for line in self.heard()):
            pass


@contextlib.contextmanager
def _processor(engine: Engine) -> Iterator[Talk]:
    process = subprocess.Popen(
        [sys.executable, "-m", "windlass", "processor", "--url", engine.url, "--tick", "60s", "--keep", "0s",
         "--log-level", "error"],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        talk = Talk(process)
        talk.say(LIST)
        talk.until_answered()
        yield talk
    finally:
        process.kill()
        process.communicate()


def _added_per_s(count: int) -> float:
    with Engine() as engine, _processor(engine) as talk:
        now = _now()
        data = b"".join(_add(job, now) for job in range(count)) + LIST
        began_at_s = time.perf_counter()
        writing = talk.begin_saying(data)
        talk.until_answered()
        took_s = time.perf_counter() - began_at_s
        writing.join()
        return count / took_s


def _worked_per_s(count: int) -> float:
    """Measure assigning, accepting and finishing waiting jobs. Each finish triggers the next assignment."""
    with Engine() as engine, _processor(engine) as talk:
        now = _now()
        writing = talk.begin_saying(b"".join(_add(job, now) for job in range(count)) + LIST)
        talk.until_answered()
        writing.join()
        now = _now()
        began_at_s = time.perf_counter()
        for worker in range(1, WORKERS + 1):
            name = WORKER % worker
            talk.say(LINE % (b"workers/" + name + b"/worker_idle", name, now, b""))
        seen = 0
        while seen < count:
            lines = talk.heard()
            seen += len(lines)
            talk.say(b"".join(map(_done, lines)))
        talk.say(LIST)
        talk.until_answered()
        return 3 * count / (time.perf_counter() - began_at_s)


def _done(line: bytes) -> bytes:
    worker = line.split(b"/", 4)[3]
    at = line.index(b'"uuid":"') + 8
    uuid, now = line[at : at + 36], _now()
    return _said(b"job_accepted", worker, uuid, now) + _said(b"job_finished", worker, uuid, now)


def _latencies_us(count: int) -> list[float]:
    found = []
    with Engine() as engine, _processor(engine) as talk:
        name = WORKER % 1
        for job in range(count):
            talk.say(LINE % (b"workers/" + name + b"/worker_idle", name, _now(), b"") + LIST)
            talk.until_answered()
            began_at_s = time.perf_counter()
            talk.say(_add(job, _now()))
            (line,) = talk.heard() or talk.heard()
            found.append((time.perf_counter() - began_at_s) * 1_000_000)
            talk.say(_done(line) + LIST)
            talk.until_answered()
    return found


def section(setting: Setting) -> list[Table]:
    added, worked = setting.scaled(ADDED), setting.scaled(WORKED)
    samples = in_turns(
        setting,
        "processor",
        {"added": lambda: _added_per_s(added), "worked": lambda: _worked_per_s(worked)},
    )
    rows = [
        ["`add_job`", spread(samples["added"])],
        ["`job_assignment`, `job_accepted` and `job_finished`", spread(samples["worked"])],
    ]
    steps = quantiles(_latencies_us(setting.scaled(SAMPLES)), n=100)
    note = f"One process reads and writes lines of JSON over pipes; {WORKERS} workers in one client."
    return [
        Table("Processor", ["messages", "per second"], rows, note),
        Table(
            "Latency of the processor",
            ["", "median", "95 %", "99 %"],
            [["`add_job` to `job_assignment`", *(number(steps[at]) for at in (49, 94, 98))]],
            "From a line on stdin, with an idle worker, to the line on stdout, in µs.",
        ),
    ]
