"""Memory bound of the embedded engine: new jobs are refused before the machine runs out of memory."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.embedded_process import new_data_dir, send_command
from windlass.core.errors import BadSetting, EngineFull, Refusal
from windlass.core.job import Blob, Codec, NewJob
from windlass.core.operations import Finish, Take
from windlass.server import build_store
from windlass.service import Service
from windlass.settings import Settings, load
from windlass.store.embedded.memory_bound import (
    available_memory,
    cgroup_bounds,
    default_memory_max,
    describe_memory_bound,
)

SMALL = 24 * 2**20
LARGE_JOB = NewJob(queue="mail", name="send", payload=Blob(b'"' + b"x" * 500_000 + b'"', Codec.JSON))


@pytest.fixture
def data_dir() -> Iterator[Path]:
    with new_data_dir() as path:
        yield path


@contextlib.contextmanager
def opened(data_dir: Path, memory_max: int | None) -> Iterator[Service]:
    store = build_store(Settings(data_dir=str(data_dir), engine_memory_max=memory_max))
    store.open_sync()
    try:
        yield Service(store)
    finally:
        store.close_sync()


def bound_of(data_dir: Path) -> int:
    lines = dict(line.partition(":")[::2] for line in send_command(data_dir, b"INFO memory").splitlines())
    assert lines["maxmemory_policy"] == "noeviction"
    return int(lines["maxmemory"])


def fill(service: Service) -> list[bytes]:
    ids: list[bytes] = []
    while len(ids) < 1000:
        try:
            (done,) = service.enqueue([LARGE_JOB]).wait()
        except EngineFull:
            return ids
        ids.append(done.id)
    raise AssertionError("the engine has no bound")


@pytest.mark.parametrize(
    ("memory_max", "bound"),
    [(Settings().engine_memory_max, default_memory_max()), (SMALL, SMALL), (None, 0)],
    ids=["default", "set", "off"],
)
def test_the_engine_starts_with_its_bound(
    data_dir: Path, memory_max: int | None, bound: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO), opened(data_dir, memory_max) as service:
        assert bound_of(data_dir) == bound
        assert describe_memory_bound(bound) in caplog.text  # shown by `windlass serve` and `worker`
        deployment = service.store.deployment
        assert deployment is not None
        assert deployment.memory_max == bound


def test_new_jobs_are_refused_and_existing_jobs_can_be_worked_off(data_dir: Path) -> None:
    with opened(data_dir, SMALL) as service:
        ids = fill(service)
        with pytest.raises(EngineFull, match="WINDLASS_ENGINE_MEMORY_MAX"):
            service.enqueue([LARGE_JOB]).wait()
        taken = service.take(Take(queues=("mail",), most=2)).wait().jobs
        assert len(taken) == 2
        assert service.finish([Finish(id=job.id, token=job.lease_token) for job in taken]).wait() == [None, None]
        assert not any(isinstance(answer, Refusal) for answer in service.delete(ids[-2:]).wait())
        service.enqueue([LARGE_JOB]).wait()  # there is room again


def test_a_full_engine_takes_the_functions_of_a_new_version(data_dir: Path) -> None:
    with opened(data_dir, SMALL) as service:
        fill(service)
        assert send_command(data_dir, b"FUNCTION FLUSH") == "+OK"
        assert len(service.take(Take(queues=("mail",), most=1)).wait().jobs) == 1
        assert bound_of(data_dir) == SMALL


def test_the_default_is_half_of_the_available_memory() -> None:
    assert default_memory_max() == available_memory() // 2
    assert available_memory() > 0


def cgroups(tmp_path: Path, own: str, **bounds: str) -> list[int]:
    for path, text in bounds.items():
        directory = tmp_path.joinpath(*path.split("__"))
        directory.mkdir(parents=True, exist_ok=True)
        name = "memory.limit_in_bytes" if path.startswith("memory") else "memory.max"
        (directory / name).write_text(f"{text}\n")
    (tmp_path / "own").write_text(own)
    return list(cgroup_bounds(tmp_path, tmp_path / "own"))


def test_bounds_of_cgroups_above_count(tmp_path: Path) -> None:
    assert cgroups(tmp_path, "0::/a/b\n", a="1000", a__b="max") == [1000]


def test_bounds_of_cgroups_of_version_1(tmp_path: Path) -> None:
    own = "3:cpu,cpuacct:/x\n2:memory:/a\n1:name=systemd:/a\n"
    assert cgroups(tmp_path, own, memory="9223372036854771712", memory__a="2000") == [2000, 9223372036854771712]


def test_a_container_that_sees_only_its_own_cgroup(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("500\n")
    assert cgroups(tmp_path, "0::/docker/0123\n") == [500]
    assert cgroups(tmp_path, "0::/../other\n") == [500]


def test_without_cgroups_there_is_no_bound(tmp_path: Path) -> None:
    assert list(cgroup_bounds(tmp_path, tmp_path / "missing")) == []


def test_setting_of_the_bound(tmp_path: Path) -> None:
    def read(value: str) -> int | None:
        return load(environment={"WINDLASS_ENGINE_MEMORY_MAX": value}, directory=tmp_path)[0].engine_memory_max

    assert (read("1000000000"), read("0"), read("off")) == (1_000_000_000, 0, None)
    for wrong in ("-1", "much", ""):
        with pytest.raises(BadSetting, match="WINDLASS_ENGINE_MEMORY_MAX"):
            read(wrong)
