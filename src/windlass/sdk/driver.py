"""Drivers for flows that are written once as generators: with an event loop or without."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

from windlass.store.driver import run, run_sync
from windlass.store.operation import Operation

T = TypeVar("T")
OperationFlow: TypeAlias = Generator[Operation[Any], Any, T]


def run_flow_sync(flow: OperationFlow[T]) -> T:
    return run_sync(flow, lambda asked: asked.wait())


async def run_flow(flow: OperationFlow[T]) -> T:
    return await run(flow, lambda asked: asked)
