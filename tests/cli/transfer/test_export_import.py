"""windlass export and windlass import: files, pipes, exit codes and reports."""

from __future__ import annotations

import gzip
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.export.example_deployment import comparable, export_lines, fill
from tests.service.helpers import counts, new, put
from windlass.service import Service


def windlass(service: Service, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    store = service.store
    environment = os.environ | {"WINDLASS_URL": str(store.endpoint), "WINDLASS_NAMESPACE": store.namespace}
    command = [sys.executable, "-m", "windlass", *arguments]
    return subprocess.run(command, input=given, capture_output=True, env=environment, timeout=60, check=False)


@pytest.mark.parametrize("name", ["all.jsonl", "all.jsonl.gz"])
def test_export_and_import_a_file(service: Service, target: Service, tmp_path: Path, name: str) -> None:
    fill(service)
    target.store.open_sync()  # marks the namespace as a test namespace
    file = tmp_path / name
    out = windlass(service, "export", str(file))
    assert (out.returncode, out.stdout) == (0, b"")
    assert out.stderr.decode().splitlines()[-1].startswith("Exported ")
    content = gzip.decompress(file.read_bytes()) if name.endswith(".gz") else file.read_bytes()
    assert comparable(content.splitlines()) == comparable(export_lines(service))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [name]
    back = windlass(target, "import", str(file))
    assert back.returncode == 0, back.stderr
    assert comparable(export_lines(target)) == comparable(export_lines(service))


def test_export_and_import_through_a_pipe(service: Service, target: Service) -> None:
    put(service, new(), new())
    out = windlass(service, "export")
    back = windlass(target, "import", "-", given=out.stdout)
    assert back.returncode == 0, back.stderr
    assert counts(target) == {"queued": 2}


def test_imports_into_existing_data_only_with_merge(service: Service, target: Service, tmp_path: Path) -> None:
    put(service, new("mine"))
    put(target, new("theirs"))
    file = tmp_path / "e.jsonl"
    windlass(service, "export", str(file))
    refused = windlass(target, "import", str(file))
    assert refused.returncode == 1
    assert b"--merge" in refused.stderr
    assert counts(target, "mine") == {}
    merged = windlass(target, "import", "--merge", str(file))
    assert merged.returncode == 0, merged.stderr
    assert counts(target, "mine") == counts(target, "theirs") == {"queued": 1}


def test_reports_refused_entries_and_exits_with_1(service: Service, target: Service) -> None:
    put(service, new(unique="u"))
    put(target, new(unique="u"))
    back = windlass(target, "import", "--merge", "-", given=b"".join(export_lines(service)))
    assert back.returncode == 1
    assert b"refused, line 3: job " in back.stderr
    assert b"unique key" in back.stderr


@pytest.mark.parametrize("cut", ["line", "gzip", "text"])
def test_refuses_a_cut_off_file(service: Service, target: Service, tmp_path: Path, cut: str) -> None:
    put(service, *(new() for _ in range(50)))
    lines = export_lines(service)
    file = tmp_path / ("e.gz" if cut == "gzip" else "e")
    whole = b"".join(lines)
    file.write_bytes({"line": b"".join(lines[:-1]), "text": whole[:-300], "gzip": gzip.compress(whole)[:-20]}[cut])
    back = windlass(target, "import", str(file))
    assert back.returncode == 1
    assert back.stderr.decode().splitlines()[-1].startswith("windlass: ")
    assert b"Traceback" not in back.stderr
    file.write_bytes(gzip.compress(whole) if cut == "gzip" else whole)
    assert windlass(target, "import", "--merge", str(file)).returncode == 0
    assert counts(target) == {"queued": 50}


@pytest.mark.parametrize("arguments", [("import", "/nowhere/at/all"), ("export", "/nowhere/at/all"), ("import", "/")])
def test_unusable_files(service: Service, arguments: tuple[str, ...]) -> None:
    done = windlass(service, *arguments)
    assert done.returncode == 1
    assert b"cannot be" in done.stderr
    assert b"Traceback" not in done.stderr


def test_refuses_an_uncompressed_file_with_the_suffix_gz(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "e.gz"
    file.write_text(json.dumps({"kind": "header"}))
    done = windlass(service, "import", str(file))
    assert (done.returncode, b"Traceback" in done.stderr) == (1, False)
