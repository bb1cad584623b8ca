"""Stores of test deployments, each under a namespace of its own."""

from __future__ import annotations

import itertools
import os

from engine_process import EngineProcess
from windlass.store.endpoint import parse_url
from windlass.store.store import Store

_namespaces = itertools.count(1)


def make_store(engine: EngineProcess, **options: object) -> Store:
    namespace = f"t{os.getpid()}-{next(_namespaces)}"
    return Store(parse_url(engine.unix_url), namespace=namespace, is_test=True, patience_s=10.0, **options)  # type: ignore[arg-type]
