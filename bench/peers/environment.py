"""Virtual environment for each peer under .bench/, because their requirements conflict with each other and with ours.
`python -m bench.peers.environment` makes environments that are missing or whose requirements have changed."""

import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Iterable
from pathlib import Path

import windlass

from . import PEERS, STEP_PEERS, WINDLASS

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE.parent.parent / ".bench"
PACKAGES = {"docket": "pydocket", "taskiq_list": "taskiq", "taskiq_stream": "taskiq"}
STAMP = "requirements.txt"  # copy of the installed requirements, written after a complete installation


def python_of(peer: str) -> str:
    return sys.executable if peer == WINDLASS else str(ENVIRONMENTS / peer / "bin" / "python")


def version(peer: str) -> str:
    """Return the version of the peer's own package, as pinned in its requirements."""
    if peer == WINDLASS:
        return windlass.__version__
    pins = dict(line.split("==") for line in _requirements(peer).read_text().split())
    return pins[PACKAGES.get(peer, peer)]


def is_prepared(peer: str) -> bool:
    stamp = ENVIRONMENTS / peer / STAMP
    return peer == WINDLASS or (stamp.exists() and stamp.read_bytes() == _requirements(peer).read_bytes())


def prepare(peers: Iterable[str], say: Callable[[str], None]) -> None:
    for peer in peers:
        if not is_prepared(peer):
            say(f"{peer}: installing into .bench/{peer} …")
            _install(peer)
    say("All environments are ready.")


def _requirements(peer: str) -> Path:
    return HERE / peer / "requirements.txt"


def _install(peer: str) -> None:
    folder = ENVIRONMENTS / peer
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    pip = [python_of(peer), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command = [*pip, "--requirement", str(_requirements(peer))]
    installed = subprocess.run(command, check=False, capture_output=True, text=True)
    if installed.returncode:
        raise SystemExit(f"{peer} cannot be installed. Can pip reach a package index?\n{installed.stderr[-2000:]}")
    shutil.copy(_requirements(peer), folder / STAMP)


def main() -> None:
    prepare([*PEERS, *STEP_PEERS], lambda text: print(text, flush=True))


if __name__ == "__main__":
    main()
