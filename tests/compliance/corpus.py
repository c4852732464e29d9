"""Where published result logs lie, for tests that read them; nothing of them is kept in this
repository.
"""

import os
from pathlib import Path
from typing import Final

import pytest

CORPUS: Final = Path(
    os.environ.get("PODIUM_CORPUS", Path(__file__).parents[3] / "shared" / "corpus")
)
needs_corpus: Final = pytest.mark.skipif(
    not CORPUS.is_dir(),
    reason=f"no published results at {CORPUS}: name their folder in PODIUM_CORPUS",
)
