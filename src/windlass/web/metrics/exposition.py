"""The text format in which Prometheus reads figures (version 0.0.4)."""

from __future__ import annotations

from typing import Literal, TypeAlias

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Kind: TypeAlias = Literal["gauge", "counter", "histogram"]
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Exposition:
    """Families one after the other, each with all its samples, as the format wants it."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def metric(self, name: str, kind: Kind, about: str) -> None:
        self._lines += (f"# HELP {name} {about}", f"# TYPE {name} {kind}")

    def sample(self, name: str, value: float, **labels: str) -> None:
        """Names of labels are ours; their values may be anybody's."""
        written = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        self._lines.append(f"{name}{{{written}}} {value!r}" if written else f"{name} {value!r}")

    def comment(self, text: str) -> None:
        self._lines.append(f"# {text}")

    def encode(self) -> bytes:
        return ("\n".join(self._lines) + "\n").encode(errors="backslashreplace")


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)
