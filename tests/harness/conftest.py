"""The fake workloads are found by their entry points, here and in child processes."""

import os
import sys
from pathlib import Path

from suite import registry

FAKES = Path(__file__).resolve().parents[1] / "fakes"

if str(FAKES) not in sys.path:
    sys.path.insert(0, str(FAKES))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(FAKES), os.environ.get("PYTHONPATH")]))
    for found in (registry.points, registry.round_files, registry.texts_of_round, registry.round_names, registry.kind_of_round, registry.round):
        found.cache_clear()
