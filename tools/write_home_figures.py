"""Write the figures of docs/index.md from docs/performance.json."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from website.figures import render

if __name__ == "__main__":
    page = Path("docs/index.md")
    page.write_text(render(page.read_text()))
