"""Both distributions: equal versions and extras, and complete wheels."""

from __future__ import annotations

import re
import tomllib
import zipfile
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

import windlass
from tests.house.source_tree import ROOT, tracked_files
from tests.installation.bare_python import first_program_of_the_readme

CLIENT, QUEUE = ROOT / "pyproject.toml", ROOT / "distributions" / "windlass-queue" / "pyproject.toml"


def project(path: Path) -> Any:
    return tomllib.loads(path.read_text())["project"]


def metadata(wheels: Path, name: str) -> Any:
    (path,) = wheels.glob(f"{name}-*.whl")
    with zipfile.ZipFile(path) as archive:
        return HeaderParser().parsestr(archive.read(f"{name}-{windlass.__version__}.dist-info/METADATA").decode())


def test_the_distribution_for_people_is_the_client_with_server_and_engine() -> None:
    queue = project(QUEUE)
    assert queue["version"] == windlass.__version__
    assert queue["dependencies"] == [f"windlass-queue-client[server,embedded]=={windlass.__version__}"]


def test_both_distributions_have_the_same_extras() -> None:
    extras = set(project(CLIENT)["optional-dependencies"]) - {"server", "embedded", "dev"}
    assert project(QUEUE)["optional-dependencies"] == {
        extra: [f"windlass-queue-client[{extra}]=={windlass.__version__}"] for extra in sorted(extras)
    }


def test_both_distributions_say_the_same_about_themselves() -> None:
    shared = ("description", "readme", "license", "license-files", "requires-python", "classifiers")
    assert {name: project(QUEUE)[name] for name in shared} == {name: project(CLIENT)[name] for name in shared}


def test_the_wheel_has_every_file_of_the_package(wheels: Path) -> None:
    (path,) = wheels.glob("windlass_queue_client-*.whl")
    files = {name for name in zipfile.ZipFile(path).namelist() if ".dist-info/" not in name}
    assert files == {path.relative_to(ROOT / "src").as_posix() for path in tracked_files("src")}


def test_the_distribution_for_people_has_no_files(wheels: Path) -> None:
    (path,) = wheels.glob("windlass_queue-*.whl")
    assert [name for name in zipfile.ZipFile(path).namelist() if ".dist-info/" not in name] == []


def test_the_client_requires_no_package_of_the_server(wheels: Path) -> None:
    required = metadata(wheels, "windlass_queue_client").get_all("Requires-Dist")
    always = {re.split(r"[^\w-]", line)[0] for line in required if "extra ==" not in line}
    assert always == {"aiohttp", "click", "cronsim", "hiredis", "msgspec", "rich", "tzdata"}


def test_the_script_for_strangers_runs_the_first_job_of_the_readme() -> None:
    (shop,) = re.findall(r"<<'PROGRAM'\n(.*?)PROGRAM\n", (ROOT / "tools" / "first_job.sh").read_text(), re.DOTALL)
    assert shop == first_program_of_the_readme()
