"""Prometheus text exposition format (version 0.0.4)."""

from __future__ import annotations

from typing import Literal, TypeAlias

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Kind: TypeAlias = Literal["gauge", "counter", "histogram"]
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Exposition:
    """Text under construction: each metric with all its samples, as the format requires."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def metric(self, name: str, kind: Kind, about: str) -> None:
        self._lines += (f"# HELP {name} {about}", f"# TYPE {name} {kind}")

    def sample(self, name: str, value: float, **labels: str) -> None:
        """Add a sample. Values of labels are escaped; their names are constants."""
        pairs = ",".join(f'{label}="{_escape(text)}"' for label, text in labels.items())
        self._lines.append(f"{name}{{{pairs}}} {value!r}" if pairs else f"{name} {value!r}")

    def comment(self, text: str) -> None:
        self._lines.append(f"# {text}")

    def encode(self) -> bytes:
        return ("\n".join(self._lines) + "\n").encode(errors="backslashreplace")


def _escape(text: str) -> str:
    return text.translate(_ESCAPES)
