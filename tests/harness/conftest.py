"""The fake workload is found by its entry points, here and in child processes."""

import os
import sys
from pathlib import Path

FAKES = Path(__file__).resolve().parents[1] / "fakes"

sys.path.insert(0, str(FAKES))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(FAKES), os.environ.get("PYTHONPATH")]))
