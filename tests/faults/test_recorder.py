"""A history survives the end of its writer: begun calls are known, and cut lines are skipped."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from faults.checks import HistoryIndex
from faults.history import Entry, JobFacts, Recorder, parse_entries, read_history
from tests.support.engine_process import EngineProcess

LIMIT_S = 120.0
ROOT = Path(__file__).resolve().parents[2]


def test_begun_and_answered(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "h", "producer")
    first, second, third = (recorder.begin("enqueue", [JobFacts(key=key)]) for key in ("a", "b", "c"))
    first.record_ok([JobFacts(id="1", outcome="queued")])
    second.record_refusal("queue_full")
    third.record_unknown("cut")
    recorder.record_event("fire", [JobFacts(schedule="s")])
    recorder.close()
    found = read_history([tmp_path / "h"])
    assert [(entry.n, entry.phase) for entry in found] == [
        (1, "begun"), (2, "begun"), (3, "begun"), (1, "ok"), (2, "refused"), (3, "unknown"), (4, "ok"),
    ]  # fmt: skip
    assert [call.phase for call in HistoryIndex(found).calls] == ["ok", "refused", "unknown", "ok"]
    assert HistoryIndex(found).enqueues[0].facts == JobFacts(key="a", id="1", outcome="queued")


def test_a_restarted_client_continues_its_history(tmp_path: Path) -> None:
    path = tmp_path / "h"
    Recorder(path, "worker").begin("take")
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:-10])  # killed in the middle of a line
    recorder = Recorder(path, "worker")
    recorder.begin("take").record_ok()
    assert [(entry.n, entry.phase) for entry in read_history([path])] == [(1, "begun"), (2, "begun"), (2, "ok")]


@pytest.mark.parametrize("length", range(1, 40, 7))
def test_a_cut_line_is_skipped(length: int) -> None:
    line = msgspec.json.encode(Entry(at_ns=1, client="c", n=1, call="take", phase="ok", jobs=(JobFacts(id="a"),)))
    assert len(list(parse_entries(line + b"\n" + line[:-length]))) == 1


def test_a_file_that_is_no_history_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        list(parse_entries(b'{"at_ns": "yesterday"}\n'))


def test_two_clients_with_one_name_are_refused(tmp_path: Path) -> None:
    for name in ("h1", "h2"):
        Recorder(tmp_path / name, "worker").begin("take")
    with pytest.raises(ValueError, match="Two clients have the name 'worker'"):
        HistoryIndex(read_history([tmp_path / "h1", tmp_path / "h2"]))


@pytest.mark.parametrize("engine", ["valkey"], indirect=True)
def test_a_killed_client_leaves_its_history(engine: EngineProcess, tmp_path: Path) -> None:
    path = tmp_path / "producer.jsonl"
    command = [sys.executable, "-m", "faults.load", "producer-sdk", "--url", engine.unix_url, "--seconds", "60"]
    command += ["--namespace", f"killed-{tmp_path.name}", "--history", str(path), "--pause-s", "0"]

    def acknowledged() -> int:
        return sum(entry.phase == "ok" for entry in read_history([path])) if path.exists() else 0

    for number, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 0)):
        before = acknowledged()
        client = subprocess.Popen(command, cwd=ROOT)
        try:
            give_up_at_s = time.monotonic() + LIMIT_S
            while acknowledged() <= before + 3:
                assert time.monotonic() < give_up_at_s, "the client receives no answers"
                time.sleep(0.02)
            client.send_signal(number)
            assert client.wait(LIMIT_S) == code
        finally:
            client.kill()
            client.wait()
    calls = HistoryIndex(read_history([path])).calls
    assert len({call.begun.n for call in calls}) == len(calls)
    assert sum(call.phase == "unknown" for call in calls) <= 1, "at most the last answer is not recorded"
