"""A history survives the end of whoever writes it: what was begun is known, what was cut is passed over."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from faults.history import Entry, Recorder, Seen, entries_of, read_history
from faults.judging import Indexed
from tests.support.engine_process import EngineProcess

LIMIT_S = 120.0
ROOT = Path(__file__).resolve().parents[2]


def test_begun_and_answered(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "h", "producer")
    first, second, third = (recorder.begin("enqueue", [Seen(key=key)]) for key in ("a", "b", "c"))
    first.ok([Seen(id="1", outcome="queued")])
    second.refused("queue_full")
    third.unknown("cut")
    recorder.happened("fire", [Seen(schedule="s")])
    recorder.close()
    found = read_history([tmp_path / "h"])
    assert [(one.n, one.phase) for one in found] == [
        (1, "begun"), (2, "begun"), (3, "begun"), (1, "ok"), (2, "refused"), (3, "unknown"), (4, "ok"),
    ]  # fmt: skip
    assert [call.phase for call in Indexed(found).calls] == ["ok", "refused", "unknown", "ok"]
    assert Indexed(found).enqueues[0].seen == Seen(key="a", id="1", outcome="queued")


def test_whoever_starts_again_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "h"
    Recorder(path, "worker").begin("take")
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:-10])  # it was killed in the middle of a line
    recorder = Recorder(path, "worker")
    recorder.begin("take").ok()
    assert [(one.n, one.phase) for one in read_history([path])] == [(1, "begun"), (2, "begun"), (2, "ok")]


@pytest.mark.parametrize("length", range(1, 40, 7))
def test_cut_line_is_passed_over(length: int) -> None:
    line = msgspec.json.encode(Entry(at_ns=1, client="c", n=1, call="take", phase="ok", jobs=(Seen(id="a"),)))
    assert len(list(entries_of(line + b"\n" + line[:-length]))) == 1


def test_what_is_no_history_is_not_taken_for_one() -> None:
    with pytest.raises(msgspec.ValidationError):
        list(entries_of(b'{"at_ns": "yesterday"}\n'))


def test_clients_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for name in ("h1", "h2"):
        Recorder(tmp_path / name, "worker").begin("take")
    with pytest.raises(ValueError, match="Two clients are called 'worker'"):
        Indexed(read_history([tmp_path / "h1", tmp_path / "h2"]))


@pytest.mark.parametrize("engine", ["valkey"], indirect=True)
def test_killed_client_leaves_its_history(engine: EngineProcess, tmp_path: Path) -> None:
    path = tmp_path / "producer.jsonl"
    command = [sys.executable, "-m", "faults.load", "producer-sdk", "--url", engine.unix_url, "--seconds", "60"]
    command += ["--namespace", f"killed-{tmp_path.name}", "--history", str(path), "--pause-s", "0"]

    def acknowledged() -> int:
        return sum(one.phase == "ok" for one in read_history([path])) if path.exists() else 0

    for number, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 0)):
        before = acknowledged()
        client = subprocess.Popen(command, cwd=ROOT)
        try:
            give_up_at_s = time.monotonic() + LIMIT_S
            while acknowledged() <= before + 3:
                assert time.monotonic() < give_up_at_s, "it is not told anything"
                time.sleep(0.02)
            client.send_signal(number)
            assert client.wait(LIMIT_S) == code
        finally:
            client.kill()
            client.wait()
    calls = Indexed(read_history([path])).calls
    assert len({call.begun.n for call in calls}) == len(calls)
    assert sum(call.phase == "unknown" for call in calls) <= 1, "of what was told, at most the last is not written"
