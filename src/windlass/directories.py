"""Directories that the settings name: engine data and downloaded files."""

from __future__ import annotations

from pathlib import Path

from .settings import Settings
from .store.embedded.engine import default_data_dir


def data_dir(settings: Settings) -> Path:
    """Return the directory of the embedded engine that the settings name."""
    path = settings.url.removeprefix("embedded:").removeprefix("//") or settings.data_dir
    return Path(path).expanduser() if path else default_data_dir()


def download_dir(settings: Settings) -> Path:
    """Where downloaded files are."""
    if settings.download_dir:
        return Path(settings.download_dir).expanduser()
    is_embedded = not settings.url or settings.url.startswith("embedded:")
    home = Path(settings.data_dir).expanduser() if settings.data_dir else default_data_dir()
    return (data_dir(settings) if is_embedded else home) / "downloads"
