"""The fixture `job_queue` for pytest. Every test run of an environment that has Windlass loads this: imports wait for
the first use."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .app import Windlass
    from .testing import Testing


@pytest.fixture
def job_queue() -> Iterator[Callable[[Windlass], Testing]]:
    """`t = job_queue(app)`: until the test ends, the app uses a private engine whose clock `t` moves."""
    with contextlib.ExitStack() as stack:
        yield lambda app: stack.enter_context(app.testing())
