"""Engine with a clock that only the test moves: the same scripts with TIME replaced by a fixed instant. Two calls in a
row share their millisecond, so a model can predict each answer exactly."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from unittest import mock

import windlass.store.store as store_module
from tests.support.engine_process import EngineProcess
from windlass.store import scripts
from windlass.store.clock import EngineClock
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

START_MS = 1_800_000_000_000
_TIME = "redis.call('TIME')"
# Keys expire by the engine's own time, which goes on: what they say must outlast the test's time standing still.
_EXPIRIES = ("math.ceil(bucket.full_at - clock.now_ms) + 1", "'PX', period_ms")
_LONGER = " + 600000"


def frozen_library() -> scripts.Library:
    source = scripts.library().source
    assert source.count(_TIME) == 1, "clock.lua reads the engine's time in one place"
    for expiry in _EXPIRIES:
        assert source.count(expiry) == 1, f"the library sets {expiry} in one place"
    return scripts.library().rewritten("frozen", _freeze)


def _freeze(source: str) -> str:
    for expiry in _EXPIRIES:
        source = source.replace(expiry, expiry + _LONGER)
    return source.replace(_TIME, f"{{{START_MS // 1000}, 0}}")


def small_steps() -> scripts.Library:
    """Return the frozen library with small budgets: a call touches two members and reads three waiting jobs."""

    def reduce(source: str) -> str:
        source = re.sub(r"STEP_BUDGET = \d+", "STEP_BUDGET = 2", source)
        return re.sub(r"CHECK_BUDGET = \d+", "CHECK_BUDGET = 3", source)

    frozen = frozen_library()
    library = frozen.rewritten("small", reduce)
    assert library.source.count("BUDGET = 2") == frozen.source.count("STEP_BUDGET = ")
    return library


class FrozenClock(EngineClock):
    def now_ms(self) -> int:
        return START_MS + self.offset_ms


@contextlib.contextmanager
def frozen_time(*, in_small_steps: bool = False) -> Iterator[None]:
    library = small_steps() if in_small_steps else frozen_library()
    with mock.patch.object(store_module, "library", return_value=library):
        yield


def frozen_store(engine: EngineProcess, namespace: str) -> Store:
    store = Store(parse_url(engine.unix_url), namespace=namespace, is_test=True, patience_s=10.0)
    store._clock = FrozenClock()
    return store
