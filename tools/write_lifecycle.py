"""Write docs/lifecycle.md from the table of moves."""

from __future__ import annotations

from pathlib import Path

from windlass.core.lifecycle import render

if __name__ == "__main__":
    Path("docs/lifecycle.md").write_text(render())
