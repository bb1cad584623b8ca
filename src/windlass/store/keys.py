"""Keys that Python reads or writes itself. `lua/lib/keys.lua` names all keys, with their types and contents.

All keys of a partition begin with its root, which contains its hash tag. No other Python module builds a key.
"""

from __future__ import annotations

# Names behind the root: counters, which only grow, and registrations of waiting and listening clients. A deployment can
# be emptied under its running clients if these keys stay.
_CLIENT_KEYS = ("seq", "token", "debts", "limits_version", "limit_number", "workers", "followed", "events")
_CLIENT_PREFIXES = ("w:", "wj:", "bell:", "waiters:")


def root_of(namespace: str, tag: str) -> str:
    """Return the root of a partition, which is also a key: a hash with the marks of the deployment."""
    return f"{namespace}:{{{tag}}}"


def namespace_of(root: str) -> str:
    return root.rpartition(":")[0]


def token(root: str) -> str:
    """Return the counter of lease tokens."""
    return f"{root}:token"


def events(root: str) -> str:
    """Return the stream of events."""
    return f"{root}:events"


def wakeup_list(root: str, process: str) -> str:
    """Return the list of wakeups of a process, or of a blocking caller."""
    return f"{root}:bell:{process}"


def probe(root: str) -> str:
    """Return the key that a probe of the engine writes and removes in one step. No other code uses it."""
    return f"{root}:probe"


def pattern(start: str) -> str:
    """Return the pattern of all keys of a namespace, or behind a root."""
    return f"{start}:*"


def serves_clients(root: str, key: bytes) -> bool:
    """Return whether running clients depend on a key of this partition."""
    name = key.removeprefix(f"{root}:".encode()).decode(errors="replace")
    return name in _CLIENT_KEYS or name.startswith(_CLIENT_PREFIXES)
