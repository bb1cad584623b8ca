"""Format of a namespace: the lowest format that a program must know to use its data.

It is stored with the namespace. Opening a namespace never changes it, so that a deployment can go back to the version
before. It grows when something is stored that earlier versions would damage, or when an operator requests it.
"""

from __future__ import annotations

import msgspec

from windlass import __version__

FIRST = 1  # of new namespaces
WITH_STEPS = 2  # of namespaces in which a job has stored a step
KNOWN = WITH_STEPS  # the highest that this version reads
SINCE = {FIRST: "0.1.0", WITH_STEPS: "0.2.0"}  # first version that reads it


class NamespaceFormat(msgspec.Struct, frozen=True, order=True):
    number: int
    needs_version: str = ""  # of Windlass, at least; empty: any

    @property
    def is_known(self) -> bool:
        return self.number <= KNOWN

    def __str__(self) -> str:
        return f"{self.number}, for Windlass {self.needs_version} or newer" if self.needs_version else str(self.number)


def read_format(layout: bytes | None, needs_version: bytes | None) -> NamespaceFormat:
    """Read the stored fields. A namespace without them is not in use."""
    return NamespaceFormat(int(layout or FIRST), (needs_version or b"").decode(errors="replace"))


def refusal_of(namespace: str, found: NamespaceFormat) -> str:
    """Return why this version does not open a namespace, and what to do."""
    return (
        f"Namespace {namespace!r} has format {found}. This is Windlass {__version__}, which reads formats up to "
        f"{KNOWN}. Nothing was changed. Upgrade this program, or use another namespace (docs/upgrading.md)."
    )


def refusal_of_export(number: int, version: str) -> str:
    """Return why this version does not read an export that another version has written."""
    return (
        f"the export has namespace format {number}, of Windlass {version}. This is Windlass {__version__}, which reads "
        f"formats up to {KNOWN}. Use Windlass {version} or newer (docs/upgrading.md)."
    )
