"""Images of the Dockerfile, built by buildah without a daemon, and containers of them with a read-only root.

No registry of images is at hand, so a base is made of Debian packages: it stands in for `python:3.11-slim`, which is
Debian with Python, too. Steps of the Dockerfile run unchanged.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.deploy.tools import ROOT

BASE_IMAGE = "docker.io/library/python:3.11-slim"
BASE_PACKAGES = "python3-venv,passwd,systemd-sysv,dbus"  # systemd for the tests of the units only
# Settings of pip and certificates of this machine, for the steps that install packages.
_OF_THE_MACHINE = [path for path in ("/etc/pip.conf", "/etc/ssl/certs") if Path(path).exists()]
_APT_SOURCES = ("/etc/apt/sources.list", "/etc/apt/sources.list.d/debian.sources")
_USER = re.compile(r"\d+:\d+")
# What a container runtime does: a root that cannot be written, its own /tmp, and a volume.
_CONTAINER = """
mount --bind {root} {root} && mount -o remount,bind,ro {root} &&
mount -t tmpfs tmpfs {root}/tmp && mount -t proc proc {root}/proc && mount --rbind /dev {root}/dev &&
{volume} exec chroot --userspec={user} --groups={group} {root} env -i --chdir={directory} {environment} {command}
"""


class ImageBuilder:
    """Store of images in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        places = (f"--root={directory}/images", f"--runroot={directory}/run", "--storage-driver=overlay")
        self._buildah = ("buildah", *places)

    def make_base(self) -> None:
        """Make the base image from the packages of this machine's release."""
        archive = self._directory / "base.tar"
        sources = "".join(Path(path).read_text() for path in _APT_SOURCES if Path(path).exists())
        release = _run("sh", "-c", ". /etc/os-release && echo $VERSION_CODENAME")
        options = ("--quiet", "--variant=essential", f"--include={BASE_PACKAGES}")
        _run("mmdebstrap", *options, release, archive, "-", stdin=sources)
        container = self._call("from", "scratch")
        self._call("add", "--quiet", container, str(archive), "/")
        self._call(
            "run", "--isolation=chroot", container, "--", "ln", "-s", "/usr/bin/python3", "/usr/local/bin/python"
        )
        self._call("commit", "--quiet", container, BASE_IMAGE)

    def build(self, tag: str, context: Path = ROOT, *options: str) -> None:
        volumes = [f"--volume={path}:{path}:ro" for path in _OF_THE_MACHINE]
        fixed = ("--format=docker", "--layers", "--isolation=chroot", "--pull-never", "--network=host")
        self._call("build", *fixed, *volumes, *options, f"--tag={tag}", str(context))

    def configuration(self, image: str) -> dict[str, Any]:
        """Return what the image says about its containers: user, variables, command, health check."""
        found: dict[str, Any] = json.loads(self._call("inspect", "--type=image", image))["Docker"]["config"]
        return found

    def root_of(self, image: str) -> Path:
        """Mount the files of a new container of the image, and return their directory."""
        return Path(self._call("mount", self._call("from", "--pull-never", image)))

    @contextlib.contextmanager
    def container(
        self,
        image: str,
        arguments: Sequence[str] = (),
        *,
        environment: Mapping[str, str],
        volume: tuple[Path, str] | None = None,
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run a container. It shares the network of this machine, and its process gets our signals."""
        root = self.root_of(image)
        configuration = self.configuration(image)
        assert _USER.fullmatch(configuration["User"])
        variables = dict(entry.split("=", 1) for entry in configuration["Env"]) | environment
        script = _CONTAINER.format(
            root=root,
            user=configuration["User"],
            group=configuration["User"].partition(":")[2],
            directory=configuration["WorkingDir"],
            volume=f"mount --bind {volume[0]} {root}{volume[1]} &&" if volume else "",
            environment=shlex.join(f"{name}={value}" for name, value in variables.items()),
            command=shlex.join([*configuration["Entrypoint"], *(arguments or configuration["Cmd"])]),
        )
        process = subprocess.Popen(["unshare", "--mount", "sh", "-ec", script], stdout=subprocess.DEVNULL)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def close(self) -> None:
        """Remove all containers and images, with their mounts."""
        self._call("rm", "--all")
        self._call("rmi", "--all", "--force")

    def _call(self, *arguments: str) -> str:
        return _run(*self._buildah, *arguments)


def _run(*command: str | Path, stdin: str | None = None) -> str:
    done = subprocess.run(command, check=False, input=stdin, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, f"{shlex.join(map(str, command))}: {done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout.strip()
