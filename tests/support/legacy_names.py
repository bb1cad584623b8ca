"""Names as older versions stored them, before control characters were refused in new ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from windlass.core.validation import values


@contextmanager
def allow_legacy_names() -> Iterator[None]:
    """Let this process store any name that was allowed before, as long as the block lasts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "has_control", lambda _text: False)
        yield
