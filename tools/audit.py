"""Vulnerability check of the versions in constraints.txt (`make audit`), with pip-audit in its own environment.

Exit codes: 0 when all versions were looked up and have no known vulnerability, 1 when some are known, 2 when a
lookup was not possible."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from own_environment import WAIT_S, install

ROOT = Path(__file__).parents[1]
ENVIRONMENT = ROOT / ".audit"
PIP_AUDIT = ENVIRONMENT / "bin" / "pip-audit"
NO_SOURCE = (
    "No advisory source answered for {what}, so nothing is known. `make audit` needs pypi.org, or api.osv.dev with "
    "PIP_AUDIT_VULNERABILITY_SERVICE=osv. Run it on a machine that can reach one of them."
)


def main() -> int:
    if not install(ENVIRONMENT, PIP_AUDIT.name):
        print(
            "Cannot install pip-audit: no package index is reachable. Run this on a machine that can reach one.",
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
        print(NO_SOURCE.format(what="anything"), file=sys.stderr)
        return 2
    return _told(found)


def _told(found: list[dict[str, Any]]) -> int:
    unknown = [one["name"] for one in found if "skip_reason" in one]
    known = [(one, flaw) for one in found for flaw in one.get("vulns", ())]
    for one, flaw in known:
        fixed = ", ".join(flaw["fix_versions"]) or "no version yet"
        print(f"{one['name']} {one['version']}: {flaw['id']}, fixed in {fixed}. {flaw['description'][:200]}")
    if unknown:
        all_of_them = len(unknown) == len(found)
        print(NO_SOURCE.format(what="any of them" if all_of_them else ", ".join(unknown)), file=sys.stderr)
    print(
        f"{len(found) - len(unknown)} of {len(found)} packages were looked up, {len(known)} vulnerabilities are known."
    )
    return 1 if known else 2 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
