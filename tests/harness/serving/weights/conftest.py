"""The references' networks lie in a folder of their own."""

import sys
from pathlib import Path

REFERENCES = str(Path(__file__).parent / "references")
if REFERENCES not in sys.path:
    sys.path.insert(0, REFERENCES)
