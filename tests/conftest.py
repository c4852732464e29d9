"""What holds for all tests, before any of them loads a framework."""

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
"""Tests run side by side, one on each core; threads beyond that wait for one another, spinning: of networks as small as here, twice the time."""

sys.path.insert(0, str(Path(__file__).with_name("shared")))
