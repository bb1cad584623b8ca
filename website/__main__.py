"""Build the site: python -m website, called by make site."""

from __future__ import annotations

import sys
from pathlib import Path

from website.build import BuildFailed, build
from website.repository import ROOT


def main() -> int:
    folder, tool = ROOT / ".site", Path(sys.executable).with_name("zensical")
    if not tool.exists():
        print("Zensical is missing. Run `make site`, which installs website/requirements.txt and builds the site.")
        return 2
    try:
        html = build(folder, tool)
    except BuildFailed as error:
        print(error)
        return 1
    print(f"Built {html.relative_to(ROOT)}. To read it: python3 -m http.server -d {html.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
