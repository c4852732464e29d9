"""What holds for all tests, before any of them loads a framework."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
"""Tests run side by side, one on each core; threads beyond that wait for one another, spinning: of networks as small as here, twice the time."""
