"""The builders of examples lie beside the tests, and are imported by name."""

import sys
from pathlib import Path

for folder in (Path(__file__).parent, Path(__file__).parent / "builders"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
