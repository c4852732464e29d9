"""The judge's examples in tests/examples: written by their builder, not kept in the repository.

They are written again whenever a file changes that could change them.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from filelock import FileLock

ROOT: Final = Path(__file__).parents[2]
EXAMPLES: Final = ROOT / "tests" / "examples"
BUILDERS: Final = ROOT / "tests" / "compliance" / "builders"
SOURCES: Final = (
    "suite",
    "workloads",
    "harness",
    "compliance",
    "extras",
    "tests/compliance/builders",
)
SOURCE_SUFFIXES: Final = (".py", ".toml", ".json")
STAMP: Final = "sources.sha256"
"""File in tests/examples with the hash of the sources that the examples were written from."""


def hash_sources() -> str:
    """Hash every file that the examples may depend on."""
    digest = hashlib.sha256()
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SOURCE_SUFFIXES:
                digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def has_current_examples(digest: str) -> bool:
    """Return whether the examples were written from these sources."""
    stamp = EXAMPLES / STAMP
    return stamp.is_file() and stamp.read_text(encoding="utf-8") == digest


def ensure_examples() -> None:
    """Write the examples unless they are current; only one process at a time writes them."""
    digest = hash_sources()
    if has_current_examples(digest):
        return
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    with FileLock(build / "examples.lock"):
        if has_current_examples(digest):
            return
        partial = build / "examples.partial"
        shutil.rmtree(partial, ignore_errors=True)
        own = (str(BUILDERS), str(Path(__file__).parent), str(ROOT))
        paths = filter(None, [*own, os.environ.get("PYTHONPATH")])
        subprocess.run(
            [sys.executable, BUILDERS / "examples.py", partial],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            check=True,
        )
        (partial / STAMP).write_text(digest, encoding="utf-8")
        shutil.rmtree(EXAMPLES, ignore_errors=True)
        partial.rename(EXAMPLES)
