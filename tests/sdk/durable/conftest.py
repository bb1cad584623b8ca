"""Apps whose jobs run when the test says so, with a clock that it moves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from windlass import Testing, Windlass


@pytest.fixture
def ran() -> list[Any]:
    """Notes of the code that has run."""
    return []


@pytest.fixture
def tested() -> Windlass:
    return Windlass()


@pytest.fixture
def t(tested: Windlass) -> Iterator[Testing]:
    with tested.testing() as testing:
        yield testing
