"""The previous version is taken out of the checkout, and processes change to it and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from faults import previous_version
from faults.client_set import CHANGEABLE, Ports, clients_of_two_versions
from faults.managed_process import ManagedProcess


@pytest.fixture(autouse=True)
def _kept_choice() -> Iterator[None]:
    yield
    previous_version.choose(previous_version.RELEASE)


def test_a_version_is_written_into_a_folder(tmp_path: Path) -> None:
    previous_version.choose("HEAD")
    assert previous_version.unavailable_reason() == ""
    folder = previous_version.check_out(tmp_path)
    assert (folder / "src/windlass/__init__.py").exists()
    assert (folder / "faults/load/__main__.py").exists()


def test_an_unknown_commit_is_reported() -> None:
    previous_version.choose("no-such-commit")
    assert "this checkout has no commit no-such-commit" in previous_version.unavailable_reason()


def test_the_next_start_has_the_new_environment(tmp_path: Path) -> None:
    process = ManagedProcess(
        "shell", ["/bin/sh", "-c", "echo $VERSION"], folder=tmp_path, environment={"VERSION": "one"}
    )
    process.start()
    process.wait()
    process.set_environment({"VERSION": "two"})
    process.start()
    process.wait()
    assert process.log_path.read_text() == "one\ntwo\n"


def test_clients_that_change_are_among_those_of_both_versions() -> None:
    assert set(CHANGEABLE) <= set(clients_of_two_versions(Ports(1, 2)).names)
