"""The fixture `job_queue` for pytest. Every test run of an environment that has Windlass loads this: imports wait for
the first use."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .testing import Testing


@pytest.fixture
def job_queue() -> Iterator[Callable[..., Testing]]:
    """`t = job_queue(app)`: as `app.testing(…)`, until the test ends."""
    with contextlib.ExitStack() as stack:
        yield lambda app, **options: stack.enter_context(app.testing(**options))
