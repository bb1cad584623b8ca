"""What only POSIX systems have: file locks, process groups, unix sockets. Windows has none of them.

Modules that need `fcntl` or `resource` import them with `contextlib.suppress(ImportError)`, so that every module can be
imported on every system. Their entry points check `IS_POSIX` and raise an error that says what to do instead.
"""

from __future__ import annotations

import importlib

try:
    importlib.import_module("fcntl")
except ImportError:
    IS_POSIX = False
else:
    IS_POSIX = True
