"""Write the tables of docs/dialects.md from the table of the tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.dialects.crossing.document import DOCUMENT, render

if __name__ == "__main__":
    DOCUMENT.write_text(render(DOCUMENT.read_text()))
