"""Build of the site: pages and settings are written into a folder, and Zensical makes HTML of them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from website.navigation import as_toml, navigation
from website.pages import write_pages

SETTINGS = Path(__file__).with_name("zensical.toml")
COLOUR = re.compile(r"\x1b\[[\d;]*m")  # Zensical writes colours into pipes, too
HTML = "html"  # folder of the built site; the name is also in zensical.toml


class BuildFailed(Exception):
    """Zensical refused the pages. The text has its warnings."""


def build(folder: Path, tool: Path) -> Path:
    """Build the site in a folder with the given Zensical, and return the folder of the HTML files."""
    for old in ("pages", HTML, ".cache"):
        shutil.rmtree(folder / old, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    write_pages(folder / "pages")
    settings = SETTINGS.read_text().replace("[project]\n", f"[project]\nnav = {as_toml(navigation())}\n", 1)
    (folder / SETTINGS.name).write_text(settings)
    done = subprocess.run(
        [tool, "build", "--strict", "--clean"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildFailed(COLOUR.sub("", done.stdout + done.stderr.partition("Traceback")[0]))
    return folder / HTML
