"""The layout of a results folder: MLCommons' submission tree with podium's working files beside it.

Source: mlcommons/policies submission_rules.adoc; the folders `checkpoints`, `truth` and `.podium` are podium's.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import O_RDONLY, close, fsync
from os import open as open_descriptor
from pathlib import Path
from typing import Final

from suite.loadgen.scenario import Scenario
from suite.terms import Division

PARTIAL: Final = ".partial"
"""Suffix of a file or folder that is not finished: never a result."""

SUMMARY: Final = "mlperf_log_summary.txt"
DETAIL: Final = "mlperf_log_detail.txt"
ACCURACY: Final = "mlperf_log_accuracy.json"
ACCURACY_TEXT: Final = "accuracy.txt"
RUN_RECORD: Final = "run.json"
"""Beside LoadGen's files: what podium knows of that run (schema run.json)."""
QUERIES: Final = "queries.npy"
"""Beside LoadGen's files of a performance run: when each query was issued and completed (suite/loadgen/query_record.py)."""
TELEMETRY: Final = "telemetry.jsonl"
"""Beside them: how host and GPUs were meanwhile (schema telemetry.json)."""
CHECKPOINT_RECORD: Final = "record.json"
"""Beside exported weights: where they come from (schema checkpoint.json)."""
MANIFEST: Final = "manifest.json"

STATE: Final = ".podium"
CHECKPOINTS: Final = "checkpoints"
NEITHER: Final = re.compile(r"[^a-z0-9]")
"""What is neither a letter nor a digit: a name is the same without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One organisation's part of a results folder, for one system."""

    results: Path
    division: Division
    org: str
    system: str

    @property
    def home(self) -> Path:
        """`<results>/<division>/<org>`."""
        return self.results / self.division / self.org

    @property
    def system_file(self) -> Path:
        """The system description."""
        return self.home / "systems" / f"{self.system}.json"

    def benchmark(self, name: str) -> Path:
        """The folder of a training set or of a benchmark's scenarios; `name` is the row's training_ or inference_name."""
        return self.home / "results" / self.system / name

    def training_log(self, name: str, run: int) -> Path:
        """The log of one training run, counted from 0."""
        return self.benchmark(name) / f"result_{run}.txt"

    def training_telemetry(self, name: str, run: int, node: int = 0) -> Path:
        """The telemetry of one training run; each node of a cluster but the first adds its number to the name."""
        return self.benchmark(name) / (f"telemetry_{run}.jsonl" if node == 0 else f"telemetry_{run}_node{node}.jsonl")

    def accuracy(self, name: str, scenario: Scenario) -> Path:
        """The folder of an accuracy run."""
        return self.benchmark(name) / scenario.folder / "accuracy"

    def performance(self, name: str, scenario: Scenario, run: int = 1) -> Path:
        """The folder of a performance run, counted from 1."""
        return self.benchmark(name) / scenario.folder / "performance" / f"run_{run}"

    def measurements(self, name: str, scenario: Scenario) -> Path:
        """The measurements file of one scenario: `<system>_podium_<Scenario>.json`."""
        return self.home / "measurements" / self.system / name / scenario.folder / f"{self.system}_podium_{scenario.folder}.json"

    def truth(self, workload: str) -> Path:
        """The folder of labels, annotations or references."""
        return self.home / "truth" / workload


def checkpoint_folder(results: Path, workload: str, sha256: str) -> Path:
    """Where exported weights lie."""
    return results / CHECKPOINTS / workload / sha256


def state_folder(results: Path, workload: str) -> Path:
    """Where the state of unfinished runs lies."""
    return results / STATE / workload


def staged_results(results: Path, workload: str) -> Path:
    """Where a training set is made while an earlier one stands at its place: a results folder of its own."""
    return state_folder(results, workload) / "next"


def staged_campaign(results: Path, workload: str) -> Path:
    """Where a whole campaign is made while an earlier one stands at its place: a results folder of its own."""
    return state_folder(results, workload) / "campaign"


def stays_inside(path: str) -> bool:
    """Tell whether a path stays in the folder that it is relative to."""
    return not Path(path).is_absolute() and ".." not in Path(path).parts


def nearest(path: Path) -> Path:
    """Give a path where something lies there, else what is there of those above it."""
    return next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())


def slug(text: str) -> str:
    """Reduce a name to letters of [a-z0-9._-]."""
    return re.sub(r"[^a-z0-9._]+", "-", text.casefold()).strip("-._") or "unnamed"


def fold(name: str) -> str:
    """Compare names without case, spaces and punctuation."""
    return NEITHER.sub("", name.casefold())


def file_sha256(path: Path) -> str:
    """Hash one file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def folder_sha256(folder: Path) -> str:
    """Hash the exported weights of a folder: names and contents, sorted; podium's own record is left out."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.is_file() and path.name != CHECKPOINT_RECORD):
        digest.update(f"{path.name}\0{file_sha256(path)}\n".encode())
    return digest.hexdigest()


def names_sha256(names: Iterable[str]) -> str:
    """Hash a list of names, one a line, in any order."""
    return hashlib.sha256("".join(f"{name}\n" for name in sorted(names)).encode()).hexdigest()


def bound_seed(nonce: str, checkpoint_sha256: str) -> int:
    """Bind a LoadGen run to a campaign and a checkpoint: 63 bits of SHA-256, for `accuracy_log_rng_seed`.

    63 bits, since LoadGen's detail log prints the seed through a signed type in some versions.
    """
    digest = hashlib.sha256(f"{nonce}{checkpoint_sha256}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """Give a `.partial` path to write to; it gets its name, synced, when the block ends well, and goes when it does not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + PARTIAL)
    try:
        yield partial
        sync(partial)
        partial.replace(path)
        sync(path.parent)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def sync(path: Path) -> None:
    """Bring a file or a folder's entries to the disk."""
    descriptor = open_descriptor(path, O_RDONLY)
    try:
        fsync(descriptor)
    finally:
        close(descriptor)
