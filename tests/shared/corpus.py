"""Published result logs, for tests that read them; this repository contains none of them."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from filelock import FileLock

ROOT: Final = Path(__file__).resolve().parents[2]
PUBLISHED: Final = Path(os.environ.get("PODIUM_CORPUS", ROOT.parent / "shared" / "corpus"))
"""All published logs at hand."""
MISJUDGED: Final = (
    "inference_v6.1/closed/NVIDIA",
    "training_v6.0/Krai",
    "training_v6.0/MiTAC",
)
"""Results whose copies lack runs or tests, which docs/reference/judge-published.md lists.

A test insists that none is valid: whoever completes or judges one takes the entry away.
"""


def skip_without_corpus() -> None:
    """Skip a test that reads published results where there are none."""
    if not PUBLISHED.is_dir():
        pytest.skip(f"no published results at {PUBLISHED}: name their folder in PODIUM_CORPUS")


def list_studied_files() -> Iterator[str]:
    """List the files of the corpus that tests expect to be judged right."""
    left_out = tuple(f"{folder}/" for folder in MISJUDGED)
    for path in sorted(PUBLISHED.rglob("*")):
        name = path.relative_to(PUBLISHED).as_posix()
        if path.is_file() and not name.startswith(left_out):
            yield name


def create_studied_corpus() -> Path:
    """Link the studied part of the corpus into the build folder, once for each list of files."""
    names = list(list_studied_files())
    key = hashlib.sha256("\0".join([str(PUBLISHED), *names]).encode()).hexdigest()[:16]
    build = ROOT / "build"
    corpus = build / f"corpus-{key}"
    build.mkdir(exist_ok=True)
    with FileLock(build / "corpus.lock"):
        if corpus.is_dir():
            return corpus
        partial = build / "corpus.partial"
        shutil.rmtree(partial, ignore_errors=True)
        for name in names:
            (partial / name).parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(PUBLISHED / name, partial / name)
        partial.rename(corpus)
    return corpus


def link_or_copy(source: Path, target: Path) -> None:
    """Link a file; copy it where another file system or its owner does not let it be linked."""
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)


CORPUS: Final = create_studied_corpus() if PUBLISHED.is_dir() else PUBLISHED
