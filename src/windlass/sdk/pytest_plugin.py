"""Pytest fixture `job_queue`.

Every pytest run in an environment with Windlass installed loads this module, so imports wait until first use.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .testing import Testing


@pytest.fixture
def job_queue() -> Iterator[Callable[..., Testing]]:
    """Return a function: `t = job_queue(app)` works as `app.testing(…)` and lasts until the test ends."""
    with contextlib.ExitStack() as stack:
        yield lambda app, **options: stack.enter_context(app.testing(**options))
