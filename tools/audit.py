"""`make audit`: are there known vulnerabilities in the versions that constraints.txt names? pip-audit asks, from an
environment of its own. 0: all were looked up and none is known; 1: some are; 2: nobody could be asked."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ENVIRONMENT = ROOT / ".audit"
PIP_AUDIT = ENVIRONMENT / "bin" / "pip-audit"
WAIT_S = 600
NOBODY = (
    "Nothing is known: no advisory source could be asked about {what}. `make audit` needs pypi.org, or with "
    "PIP_AUDIT_VULNERABILITY_SERVICE=osv api.osv.dev; run it where one of them can be reached."
)


def main() -> int:
    if not _is_installed():
        print(
            "pip-audit cannot be installed: no package index could be asked. Run this where one can be reached.",
            file=sys.stderr,
        )
        return 2
    command = [PIP_AUDIT, "-r", ROOT / "constraints.txt", "--no-deps", "--disable-pip", "-f", "json"]
    asked = subprocess.run(
        [*command, "--progress-spinner", "off"], capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    try:
        found: list[dict[str, Any]] = json.loads(asked.stdout)["dependencies"]
    except (ValueError, KeyError):
        print(asked.stderr.strip().rpartition("\n")[2], file=sys.stderr)
        print(NOBODY.format(what="anything"), file=sys.stderr)
        return 2
    return _told(found)


def _is_installed() -> bool:
    if PIP_AUDIT.exists():
        return True
    venv.create(ENVIRONMENT, with_pip=True)
    pip = [
        ENVIRONMENT / "bin" / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "pip-audit",
    ]
    return subprocess.run(pip, timeout=WAIT_S, check=False).returncode == 0


def _told(found: list[dict[str, Any]]) -> int:
    unknown = [one["name"] for one in found if "skip_reason" in one]
    known = [(one, flaw) for one in found for flaw in one.get("vulns", ())]
    for one, flaw in known:
        fixed = ", ".join(flaw["fix_versions"]) or "no version yet"
        print(f"{one['name']} {one['version']}: {flaw['id']}, mended in {fixed}. {flaw['description'][:200]}")
    if unknown:
        all_of_them = len(unknown) == len(found)
        print(NOBODY.format(what="any of them" if all_of_them else ", ".join(unknown)), file=sys.stderr)
    print(
        f"{len(found) - len(unknown)} of {len(found)} packages were looked up, {len(known)} vulnerabilities are known."
    )
    return 1 if known else 2 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
