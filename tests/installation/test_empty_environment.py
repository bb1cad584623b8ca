"""The wheels in an empty environment. `make test` unpacks them beside the packages that are installed here;
`make test-deep` (`WINDLASS_DEEP=1`) installs them as a stranger does, with packages from an index."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tests.installation.bare_python import ROOT, first_program_of_the_readme
from tests.support.engine_process import EngineProcess
from tests.support.profiles import IS_DEEP

ANSWER = "mail about order 7 sent in attempt 1\n"
SETTINGS = {name: value for name, value in os.environ.items() if not name.startswith(("WINDLASS_", "PYTHON"))}


def run(command: Sequence[Path | str], cwd: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {**SETTINGS, **settings}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False)


def run_first_job(python: Path, folder: Path, **settings: str) -> str:
    """Run the README's first job and a worker. Return what the program prints."""
    (folder / "shop.py").write_text(first_program_of_the_readme())
    worker = [python, "-m", "windlass", "worker", "shop:app"]
    with subprocess.Popen(worker, cwd=folder, env={**SETTINGS, **settings}) as process:
        try:
            done = run([python, "shop.py"], folder, **settings)
        finally:
            process.terminate()
    assert done.returncode == 0, done.stderr
    return done.stdout


def unpacked_environment(wheels: Path, folder: Path) -> Path:
    """Make an environment with the files of the wheels, and the packages of this one. Return its Python."""
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin" / "python"


def test_the_first_job_of_the_readme_runs_from_the_wheels(wheels: Path, tmp_path: Path) -> None:
    if IS_DEEP:
        script = run(["sh", ROOT / "tools" / "first_job.sh"], tmp_path, WHEELS=str(wheels), PYTHON=sys.executable)
        assert ANSWER in script.stdout, script.stderr
        return
    python = unpacked_environment(wheels, tmp_path / "env")
    home = run([python, "-c", "import windlass; print(windlass.__file__)"], tmp_path).stdout
    assert home.startswith(str(tmp_path))  # not the checkout
    with EngineProcess("valkey") as engine:
        assert run_first_job(python, tmp_path, WINDLASS_URL=engine.url) == ANSWER


if IS_DEEP:

    def test_a_client_enqueues_and_works_without_the_server(wheels: Path, tmp_path: Path) -> None:
        """Short form: `test_bare_systems.py`, which hides the packages of the server."""
        python = tmp_path / "env" / "bin" / "python"
        venv.create(tmp_path / "env", with_pip=True)
        pip = run(
            [python, "-m", "pip", "install", "--quiet", "--find-links", wheels, "windlass-queue-client"], tmp_path
        )
        assert pip.returncode == 0, pip.stderr
        with EngineProcess("redis", tcp=True) as engine:
            assert run_first_job(python, tmp_path, WINDLASS_URL=engine.url) == ANSWER
        serve = run([python, "-m", "windlass", "serve"], tmp_path)
        assert serve.stderr == "windlass: windlass serve needs the server's packages: pip install windlass-queue\n"
