"""The previous release, taken out of the history of this checkout, to run beside the present version."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from .checkout import run_git

# The last commit of version 0.1.0: the next one belongs to the next release.
RELEASE = "96297755aac15ebdf9413fb72625376e17224922"
FOLDERS = ("src", "faults")  # its load clients are in `faults`


_chosen = [RELEASE]


def choose(reference: str) -> None:
    """Choose another commit for this process; empty: leave the choice."""
    _chosen[:] = [reference or _chosen[0]]


def unavailable_reason() -> str:
    """Return why the previous version cannot be taken out, and what to do about it; empty if it can."""
    (reference,) = _chosen
    done = run_git("cat-file", "-e", f"{reference}^{{commit}}")
    if done.returncode:
        return (
            f"The scenario `versions` was left out: this checkout has no commit {reference}. "
            "Run `git fetch --unshallow`, or name another commit with --previous."
        )
    return ""


def check_out(folder: Path) -> Path:
    """Write the files of the previous version into a folder and return it."""
    archive = run_git("archive", *_chosen, *FOLDERS)
    archive.check_returncode()
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder
