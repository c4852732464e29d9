"""The layout of a results folder: MLCommons' submission tree with podium's working files added.

Source: mlcommons/policies submission_rules.adoc; the folders `checkpoints`, `truth` and `.podium`
are podium's.
"""

import errno
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
"""Suffix of an unfinished file or folder: never a result."""
FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a full disk, quota or limit."""

SUMMARY: Final = "mlperf_log_summary.txt"
DETAIL: Final = "mlperf_log_detail.txt"
ACCURACY: Final = "mlperf_log_accuracy.json"
ACCURACY_TEXT: Final = "accuracy.txt"
RUN_RECORD: Final = "run.json"
"""Next to LoadGen's files: podium's run record (schema run.json)."""
QUERIES: Final = "queries.npy"
"""Next to LoadGen's files of a performance run: issue and completion time of each query
(suite/loadgen/query_record.py).
"""
TELEMETRY: Final = "telemetry.jsonl"
"""In the same folder: telemetry of host and GPUs during the run (schema telemetry.json)."""
AUDIT_RECORD: Final = "audit.json"
"""Of a compliance test: what its runs came to (schema audit.json)."""
AUDIT_CONFIG: Final = "audit.config"
"""The settings of a compliance test in MLCommons' form."""
VERIFY_ACCURACY: Final = "verify_accuracy.txt"
VERIFY_PERFORMANCE: Final = "verify_performance.txt"
AUDITS: Final = "compliance"
"""Folder of the compliance tests in an organisation's folder, as MLCommons' submissions have it
since v0.7.
"""
REFERENCE: Final = "reference"
"""Below a compliance test: the runs that its own are compared with."""
CHECKPOINT_RECORD: Final = "record.json"
"""Next to exported weights: their provenance (schema checkpoint.json)."""
MANIFEST: Final = "manifest.json"

STATE: Final = ".podium"
CHECKPOINTS: Final = "checkpoints"
LEDGER: Final = "ledger"
STAGED: Final = ("next", "serving", "campaign")
"""Folders below `.podium/<workload>` in which new results are built while earlier ones stay in
place; each is a results folder of its own.
"""
NEITHER: Final = re.compile(r"[^a-z0-9]")
"""Characters other than letters and digits; names are compared without them."""


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
        """The folder of a training set or of a benchmark's scenarios; `name` is the row's
        training_name or inference_name.
        """
        return self.home / "results" / self.system / name

    def training_log(self, name: str, run: int) -> Path:
        """The log of one training run, numbered from 0."""
        return self.benchmark(name) / f"result_{run}.txt"

    def training_telemetry(self, name: str, run: int, node: int = 0) -> Path:
        """The telemetry of one training run; nodes of a cluster after the first append their number
        to the name.
        """
        return self.benchmark(name) / (
            f"telemetry_{run}.jsonl" if node == 0 else f"telemetry_{run}_node{node}.jsonl"
        )

    def accuracy(self, name: str, scenario: Scenario) -> Path:
        """The folder of an accuracy run."""
        return self.benchmark(name) / scenario.folder / "accuracy"

    def performance(self, name: str, scenario: Scenario, run: int = 1) -> Path:
        """The folder of a performance run, numbered from 1."""
        return self.benchmark(name) / scenario.folder / "performance" / f"run_{run}"

    def measurements(self, name: str, scenario: Scenario) -> Path:
        """The measurements file of one scenario: `<system>_podium_<Scenario>.json`."""
        return (
            self.home
            / "measurements"
            / self.system
            / name
            / scenario.folder
            / f"{self.system}_podium_{scenario.folder}.json"
        )

    def audits(self, name: str, scenario: Scenario) -> Path:
        """The folder of one scenario's compliance tests."""
        return self.home / AUDITS / self.system / name / scenario.folder

    def truth(self, workload: str) -> Path:
        """The folder of labels, annotations or references."""
        return self.home / "truth" / workload

    def ledger(self, workload: str) -> Path:
        """The ledger of a workload's attempts; always in the folder that results belong to, never
        in a staging folder.
        """
        return ledger_file(own_results(self.results) / self.division / self.org, workload)


def checkpoint_folder(results: Path, workload: str, sha256: str) -> Path:
    """Folder of exported weights."""
    return results / CHECKPOINTS / workload / sha256


def state_folder(results: Path, workload: str) -> Path:
    """Folder of the state of unfinished runs."""
    return results / STATE / workload


def staged_results(results: Path, workload: str) -> Path:
    """Staging folder of a training set while an earlier one stays in place: a results folder of its
    own.
    """
    return state_folder(results, workload) / STAGED[0]


def staged_runs(results: Path, workload: str) -> Path:
    """Staging folder of LoadGen runs while earlier ones stay in place: a results folder of its
    own.
    """
    return state_folder(results, workload) / STAGED[1]


def staged_campaign(results: Path, workload: str) -> Path:
    """Staging folder of a whole campaign while an earlier one stays in place: a results folder of
    its own.
    """
    return state_folder(results, workload) / STAGED[2]


def own_results(results: Path) -> Path:
    """Return the results folder that a staging folder belongs to; any other folder is returned as
    it is.
    """
    while (
        results.name in STAGED
        and len(results.parts) > len(STAGED)
        and results.parents[1].name == STATE
    ):
        results = results.parents[2]
    return results


def staged_places(results: Path, workload: str) -> Iterator[Path]:
    """Yield a results folder and all staging folders of a workload below it."""
    campaign = staged_campaign(results, workload)
    yield results
    for place in (results, campaign):
        yield from (staged_results(place, workload), staged_runs(place, workload))
    yield campaign


def ledger_file(home: Path, workload: str) -> Path:
    """Path of a workload's ledger in an organisation's folder."""
    return home / LEDGER / f"{workload}.jsonl"


def stays_inside(path: str) -> bool:
    """Return whether a relative path stays inside its folder."""
    return not Path(path).is_absolute() and ".." not in Path(path).parts


def nearest(path: Path) -> Path:
    """Return the path if it exists, else its nearest existing parent."""
    return next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())


def slug(text: str) -> str:
    """Reduce a name to characters from [a-z0-9._-]."""
    return re.sub(r"[^a-z0-9._]+", "-", text.casefold()).strip("-._") or "unnamed"


def fold(name: str) -> str:
    """Normalise a name for comparison: without case, spaces and punctuation."""
    return NEITHER.sub("", name.casefold())


def file_sha256(path: Path) -> str:
    """Hash one file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def folder_sha256(folder: Path) -> str:
    """Hash a folder of exported weights: names and contents, sorted, without podium's own
    record.
    """
    digest = hashlib.sha256()
    for path in sorted(
        path for path in folder.iterdir() if path.is_file() and path.name != CHECKPOINT_RECORD
    ):
        digest.update(f"{path.name}\0{file_sha256(path)}\n".encode())
    return digest.hexdigest()


def names_sha256(names: Iterable[str]) -> str:
    """Hash a set of names, one per line, independent of their order."""
    return hashlib.sha256("".join(f"{name}\n" for name in sorted(names)).encode()).hexdigest()


def bound_seed(nonce: str, checkpoint_sha256: str) -> int:
    """Bind a LoadGen run to a campaign and a checkpoint: 63 bits of SHA-256, for
    `accuracy_log_rng_seed`.

    63 bits, since LoadGen's detail log prints the seed through a signed type in some versions.
    """
    digest = hashlib.sha256(f"{nonce}{checkpoint_sha256}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """Yield a `.partial` path to write to; on success it is synced and renamed to its final name,
    on failure removed.
    """
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
    """Sync a file, or a folder's entries, to disk."""
    descriptor = open_descriptor(path, O_RDONLY)
    try:
        fsync(descriptor)
    finally:
        close(descriptor)
