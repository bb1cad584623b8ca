"""Format of a namespace: the lowest format that a program must know to use its data.

It is stored with the namespace. Opening a namespace never changes it, so that a deployment can go back to the version
before. It grows by request only: of an operator, or of an operation whose data earlier versions would damage.
"""

from __future__ import annotations

import msgspec

from windlass import __version__

FIRST = 1  # of new namespaces
KNOWN = 2  # the highest that this version reads
# What programs that do not know a format misread.
MISREAD = {2: "suspended jobs, stored steps, indexed fields and conditions of limits"}


class NamespaceFormat(msgspec.Struct, frozen=True, order=True):
    number: int
    raised_by: str = ""  # version of Windlass; empty: nothing has raised it

    @property
    def is_known(self) -> bool:
        return self.number <= KNOWN

    def __str__(self) -> str:
        return f"{self.number}, raised by Windlass {self.raised_by}" if self.raised_by else str(self.number)


def read_format(layout: bytes | None, raised_by: bytes | None) -> NamespaceFormat:
    """Read the stored fields. A namespace without them is not in use."""
    return NamespaceFormat(int(layout or FIRST), (raised_by or b"").decode(errors="replace"))


def refusal_of(namespace: str, found: NamespaceFormat) -> str:
    """Return why this version does not open a namespace, and what to do."""
    needed = f"Windlass {found.raised_by} or newer" if found.raised_by else "the version that wrote it"
    return (
        f"Namespace {namespace!r} has format {found}, and this is Windlass {__version__}, which reads formats up to "
        f"{KNOWN}. Nothing was changed. Use {needed}, or another namespace (docs/upgrading.md)."
    )


def refusal_of_export(number: int, version: str) -> str:
    """Return why this version does not read an export that another version has written."""
    return (
        f"the export has namespace format {number}, of Windlass {version}, and this is Windlass {__version__}, which "
        f"reads formats up to {KNOWN}. Use Windlass {version} or newer (docs/upgrading.md)."
    )
