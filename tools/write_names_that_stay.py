"""Write tests/house/names_that_stay.json, after names were added on purpose."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.house.names_that_stay import write

if __name__ == "__main__":
    write()
