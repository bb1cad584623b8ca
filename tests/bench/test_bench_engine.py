"""The report says which allocator the engine had: the engine itself cannot tell what was preloaded."""

from __future__ import annotations

import sys

import pytest

from bench.machine import engine_version
from tests.support import engine_process


@pytest.mark.skipif(sys.platform != "linux", reason="preloading is for Linux")
def test_the_allocator_that_was_preloaded_is_named() -> None:
    product, version = engine_version()
    assert product == "Valkey"
    assert version.endswith(" (memory by jemalloc)")


def test_else_it_is_the_one_that_the_engine_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_process, "_preload", lambda _binary: "")
    assert engine_version()[1].endswith(" (memory by libc)")
