"""Random nested calls of SQL functions with hostile arguments. A seed gives the same calls again.

They run as on the server: in a child process with limited time and memory."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from windlass.dialects.bedrock.query import child, sql_functions, sqlite_query
from windlass.processes.frames import (
    AnswerMessage,
    ChildReadyMessage,
    FrameReader,
    HelloMessage,
    RaisedMessage,
    RequestMessage,
    ToParent,
    pack,
)

SECONDS = 0.2  # limit that a query keeps by itself
CPU_MAX_S = 1 + child.CPU_SPARE_S + 1  # whole seconds are counted, and the signal comes at the next tick
MEMORY_BYTES = 128 * 1024 * 1024
PROCESS_BYTES = 64 * 1024 * 1024  # of the interpreter and the libraries
SILENT_S = 120.0  # without an answer or an end: then the kernel's limits have failed
ROW = ("2030-01-01", 1, "QUEUED", "send", "2030-01-01", None, "", '{"a":[1,2,{"b":"c"}]}', 500, 0, "")
_TICKS = os.sysconf("SC_CLK_TCK")
_LEAVES = (
    "NULL", "0", "1", "-1", "2147483647", "-2147483648", "9223372036854775807", "-9223372036854775808", "1e308",
    "1e-308", "''", "'a'", "x''", "x'00ff80'", "'%.*c'", "'%*.*d'", "'%2000000000d'", "'%.2000000000f'", "'%s%s%s%s'",
    "'2000000000'", "'{}'", "'[1,[2,[3]]]'", "'$'", "'$[0]'", "'$.a[#-1].b'", "'now'", "'+2000000000 years'",
    "'%a%a%a%a%a%b'", "'*[a-z]*[^a]*b'", "'é\U0001f9f5'", "data", "name", "jobID", "lastRun",
    "printf('%.*c',4000000,'a')", "printf('%.*c',4000000,'[')", "printf('%.*c',2000000,'{\"')",
    "replace(hex(printf('%.*c',1000000,'a')),'61','{\"a\":')", "'['||replace(printf('%.*c',999999,'1'),'1','1,')||'1]'",
    "printf('%.*c',499,'%')", "'%'||printf('%.*c',498,'a')||'b'",
)  # fmt: skip
_STATEMENTS = (
    "SELECT {0};", "SELECT {0} FROM jobs;", "SELECT count({0}), {1} FROM jobs;", "SELECT {0} LIKE {1};",
    "SELECT 1 FROM jobs ORDER BY {0}, {1};", "SELECT {0} GLOB {1};", "SELECT {0}||{1};", "SELECT {0} -> {1};",
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c LIMIT 5000) SELECT {0} FROM c, jobs;",
    "WITH RECURSIVE c(x) AS (SELECT {0} UNION ALL SELECT {1} FROM c, jobs) SELECT count(*) FROM c, jobs;",
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c LIMIT 500) "
    "SELECT group_concat({0}) OVER (ORDER BY x ROWS 3 PRECEDING) FROM c, jobs;",
    "SELECT json_group_array({0}), json_group_object({1}, {0}) FROM jobs GROUP BY {1};",
)  # fmt: skip


def statements(seed: str) -> Iterator[str]:
    """Yield statements without end. Some of them call refused functions."""
    chosen = random.Random(seed)
    functions = _functions()
    while True:
        form = chosen.choice(_STATEMENTS)
        yield form.format(_expression(chosen, functions, 3), _expression(chosen, functions, 2))


def _functions() -> list[tuple[str, int]]:
    """Return names and argument counts (-1: any) of this SQLite. Refused functions are rare: a call ends the query."""
    with contextlib.closing(sqlite3.connect(":memory:")) as base:
        found = sorted(set(base.execute("SELECT name, narg FROM pragma_function_list")))
    return found + 10 * [(name, count) for name, count in found if sql_functions.is_allowed(name)]


def _expression(chosen: random.Random, functions: list[tuple[str, int]], depth: int) -> str:
    if depth == 0 or chosen.random() < 0.2:
        return chosen.choice(_LEAVES)
    name, count = chosen.choice(functions)
    if count < 0:
        count = chosen.choice((1, 2, 3, 3, 4, 6, 90))
    most = 1 if count > 10 else depth
    arguments = [_expression(chosen, functions, chosen.randrange(most)) for _ in range(count)]
    return f"{_quoted(name)}({', '.join(arguments)})"


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f'"{name}"'


class QueryProcess:
    """A process for queries, without an event loop. It is started again after the kernel ended it."""

    def __init__(self) -> None:
        self.ended = 0  # processes that the kernel ended for their time
        self._limits = sqlite_query.QueryLimits(seconds=SECONDS)
        self._pages = [msgspec.msgpack.encode([ROW])]

    def __enter__(self) -> Self:
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(SILENT_S)
        lifeline, self._lifeline = os.pipe()
        command = [sys.executable, "-m", "windlass.processes.child", child.TARGET]
        self._process = subprocess.Popen(
            [*command, str(theirs.fileno()), str(lifeline)],
            pass_fds=(theirs.fileno(), lifeline),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        os.close(lifeline)
        self._reader = FrameReader()
        self._decode = msgspec.msgpack.Decoder(ToParent).decode
        self._socket.sendall(pack(HelloMessage(sys.path)))
        assert isinstance(self._receive(), ChildReadyMessage)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
        os.close(self._lifeline)
        self._process.kill()
        self._process.wait()

    def find_fault(self, statement: str) -> str:
        """Run the statement and describe what went wrong; empty if nothing did."""
        request = child.QueryRequest(statement, self._pages, {}, self._limits, False)
        used_s = self._cpu_s()
        self._socket.sendall(pack(RequestMessage(child.encode(request), MEMORY_BYTES)))
        try:
            answer = self._receive()
        except TimeoutError:
            return f"no answer within {SILENT_S:g} s"
        if answer is None:
            return self._end()
        if self._cpu_s() - used_s > CPU_MAX_S:
            return f"it used {self._cpu_s() - used_s:.1f} s of processor time"
        return self._find_fault_in(answer)

    def _find_fault_in(self, answer: ToParent) -> str:
        if isinstance(answer, RaisedMessage) and not answer.is_out_of_memory:
            return answer.traceback
        if isinstance(answer, AnswerMessage):
            status = child.decode_answer(answer.payload).status
            if status not in (200, 402, 502):
                return f"it was answered {status}"
        if self._memory_bytes("VmHWM") > MEMORY_BYTES + PROCESS_BYTES:
            return f"it used {self._memory_bytes('VmHWM'):,} bytes"
        return "" if isinstance(answer, AnswerMessage) else self._restart()

    def _end(self) -> str:
        code = self._process.wait()
        self.ended += 1
        self._restart()
        return "" if code == -signal.SIGXCPU else f"its process ended with {code}"

    def _restart(self) -> str:
        self.__exit__(None, None, None)
        self.__enter__()
        return ""

    def _receive(self) -> ToParent | None:
        while portion := self._socket.recv(1 << 18):
            self._reader.feed(portion)
            for frame in self._reader.frames():
                return self._decode(frame)  # type: ignore[no-any-return]
        return None

    def _cpu_s(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    @property
    def kept_bytes(self) -> int:
        """Return the memory that the process has between two queries."""
        return self._memory_bytes("VmRSS")

    def _memory_bytes(self, field: str) -> int:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines())
        return int(status[field].split()[0]) * 1024
