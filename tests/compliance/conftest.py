"""The builders of examples, and the fakes that all packages share, are imported by name."""

import sys
from pathlib import Path

for folder in (Path(__file__).parent, Path(__file__).parent / "builders", Path(__file__).parents[1] / "fakes"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
