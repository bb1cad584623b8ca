"""Stylesheet, scripts and images of the dashboard.

All files share one version, a hash of their content, which is part of their URLs. Scripts import each other by relative
name, so they need the same version; browsers can cache the files without asking again."""

from __future__ import annotations

import gzip
import hashlib
from functools import cached_property
from importlib import resources
from typing import NamedTuple

_PACKAGES = ("windlass.web", "windlass.dashboard")  # web has the files that the reference of the API needs too
_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}


class Asset(NamedTuple):
    body: bytes
    packed: bytes  # gzip
    media: str


class Assets:
    @cached_property
    def files(self) -> dict[str, Asset]:
        folders = [resources.files(package).joinpath("static") for package in _PACKAGES]
        found = {
            file.name: file.read_bytes()
            for folder in folders
            for file in folder.iterdir()
            if file.name.rpartition(".")[2] in _TYPES
        }
        return {
            name: Asset(body, gzip.compress(body, mtime=0), _TYPES[name.rpartition(".")[2]])
            for name, body in sorted(found.items())
        }

    @cached_property
    def version(self) -> str:
        digest = hashlib.blake2b(digest_size=6)
        for name, asset in self.files.items():
            digest.update(f"{name}\0{len(asset.body)}\0".encode() + asset.body)
        return digest.hexdigest()


ASSETS = Assets()
