"""Images that several tests of `make check-deploy` share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.deploy.image_build import ImageBuilder
from tests.deploy.tools import ROOT


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImageBuilder]:
    """The images of the Dockerfile. Their build takes minutes."""
    builder = ImageBuilder(tmp_path_factory.mktemp("images"))
    builder.make_base()
    try:
        for target in ("worker", "server"):
            builder.build(f"windlass-{target}", ROOT, f"--target={target}")
        yield builder
    finally:
        builder.close()
