"""Names of older versions, which accepted control characters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from windlass.core.validation import values


@contextmanager
def allow_legacy_names() -> Iterator[None]:
    """Accept names with control characters inside the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "has_control", lambda _text: False)
        yield
