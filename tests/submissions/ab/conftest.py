"""Studies that the builders of the judge's examples write."""

import sys
from pathlib import Path

builders = str(Path(__file__).parents[2] / "compliance" / "builders")
if builders not in sys.path:
    sys.path.insert(0, builders)
