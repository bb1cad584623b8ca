"""Deployment that the settings name: its data directories, its embedded engine and its store."""

from __future__ import annotations

from pathlib import Path

from .settings import Settings
from .store.connection.endpoint import parse_url
from .store.embedded.engine import EmbeddedEngine, default_data_dir
from .store.store import Store


def data_dir(settings: Settings) -> Path:
    """Return the directory of the embedded engine that the settings name."""
    path = settings.url.removeprefix("embedded:").removeprefix("//") or settings.data_dir
    return Path(path).expanduser() if path else default_data_dir()


def download_dir(settings: Settings) -> Path:
    """Return the directory of downloaded files."""
    if settings.download_dir:
        return Path(settings.download_dir).expanduser()
    home = Path(settings.data_dir).expanduser() if settings.data_dir else default_data_dir()
    return (data_dir(settings) if _is_embedded(settings) else home) / "downloads"


def embedded_engine(settings: Settings) -> EmbeddedEngine | None:
    """Return the embedded engine of the data directory, not started, or None if a URL names another engine."""
    if not _is_embedded(settings):
        return None
    return EmbeddedEngine(data_dir(settings), memory_max=settings.engine_memory_max)


def _is_embedded(settings: Settings) -> bool:
    return not settings.url or settings.url.startswith("embedded:")


def is_managed(settings: Settings) -> bool:
    """Tell whether a service makes writes durable, as its operator declares. The embedded engine shows its settings."""
    return settings.engine_durability == "managed" and not _is_embedded(settings)


def build_store(settings: Settings) -> Store:
    """Build the store of the engine that the settings name: an engine's URL, or the embedded engine."""
    engine = embedded_engine(settings)
    return Store(
        parse_url(engine.url if engine else settings.url),
        engine=engine,
        namespace=settings.namespace,
        partitions=settings.partitions,
        durability=settings.durability or "memory",
        is_managed=is_managed(settings),
        allow_eviction=settings.allow_eviction,
        patience_s=settings.patience_ms / 1000,
    )
