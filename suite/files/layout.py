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
from os import F_OK, O_RDONLY, access, close, fsync
from os import open as open_descriptor
from os.path import abspath
from pathlib import Path
from stat import S_IMODE
from tempfile import TemporaryDirectory
from typing import Final
from unicodedata import normalize

from suite.errors import MissingError, RequestError
from suite.files.foreign_names import is_foreign_name
from suite.loadgen.scenario import Scenario
from suite.terms import Division

PARTIAL_SUFFIX: Final = ".partial"
"""Suffix of an unfinished file or folder: never a result."""
DISK_FULL_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a full disk, quota or limit."""

SUMMARY_LOG: Final = "mlperf_log_summary.txt"
DETAIL_LOG: Final = "mlperf_log_detail.txt"
ACCURACY_LOG: Final = "mlperf_log_accuracy.json"
ACCURACY_TEXT: Final = "accuracy.txt"
RUN_RECORD: Final = "run.json"
"""Next to LoadGen's files: podium's run record (schema run.json)."""
SYSTEM_RECORD: Final = "system.json"
"""Once per entry, study and compliance test: the system under test (schema system.json)."""
QUERY_RECORD_FILE: Final = "queries.npy"
"""Next to LoadGen's files of a performance run: issue and completion time of each query
(suite/loadgen/query_record.py).
"""
TOKEN_RECORD_FILE: Final = "tokens.npy"
"""Next to LoadGen's files of a performance run whose answers are generated: first and last token of
each answer (suite/loadgen/token_record.py).
"""
USAGE_RECORD_FILE: Final = "usage.npy"
"""Next to LoadGen's files of a performance run over OpenAI's API, where servers count the tokens of
prompts: those counts (suite/loadgen/usage_record.py).
"""
ARRIVAL_RECORD_FILE: Final = "arrivals.npy"
GAP_RECORD_FILE: Final = "gaps.npy"
"""Next to LoadGen's files of a point that servers answered: what arrived of each answer
(suite/loadgen/arrival_record.py).
"""
LOGPROB_FILE: Final = "logprobs.npy"
REFERENCE_LOGPROB_FILE: Final = "reference_logprobs.npy"
"""Next to LoadGen's files of an accuracy run: how likely the system found its answers, and how
likely PyTorch finds them (suite/loadgen/logprob_record.py).
"""
START_RECORD_FILE: Final = "starts.npy"
ROOM_RECORD_FILE: Final = "rooms.npy"
"""Next to LoadGen's files of a point of a curve: when each prompt began to be answered, int64, in
the order of `tokens.npy` and by its clock.
"""
TELEMETRY_FILE: Final = "telemetry.jsonl"
"""In the same folder: telemetry of host and GPUs during the run (schema telemetry.json)."""
AUDIT_RECORD: Final = "audit.json"
"""Of a compliance test: what its runs came to (schema audit.json)."""
AUDIT_CONFIG: Final = "audit.config"
"""The settings of a compliance test in MLCommons' form."""
VERIFY_ACCURACY: Final = "verify_accuracy.txt"
VERIFY_PERFORMANCE: Final = "verify_performance.txt"
AUDITS_FOLDER: Final = "compliance"
"""Folder of the compliance tests in an organisation's folder, as MLCommons' submissions have it
since v0.7.
"""
REFERENCE_RUNS_FOLDER: Final = "reference"
"""Below a compliance test: the runs that its own are compared with."""
GROUPED_RUN_FOLDERS: Final = ("performance", REFERENCE_RUNS_FOLDER)
"""Folders of an entry or a compliance test that hold its runs by number."""
CHECKPOINT_RECORD: Final = "record.json"
"""Next to exported weights: their provenance (schema checkpoint.json)."""
MANIFEST_FILE: Final = "manifest.json"

STATE_FOLDER: Final = ".podium"
CHECKPOINTS_FOLDER: Final = "checkpoints"
LEDGER_FOLDER: Final = "ledger"
STAGING_FOLDERS: Final = ("next", "serving", "campaign")
"""Folders below `.podium/<workload>` in which new results are built while earlier ones stay in
place; each is a results folder of its own.
"""
NON_ALPHANUMERIC: Final = re.compile(r"[\W_]")
"""Characters other than letters and digits of any script; names are compared without them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsEntry:
    """One organisation's part of a results folder, for one system."""

    results: Path
    division: Division
    org: str
    system: str

    @property
    def organisation_folder(self) -> Path:
        """`<results>/<division>/<org>`."""
        return self.results / self.division / self.org

    @property
    def system_file(self) -> Path:
        """The system description."""
        return self.organisation_folder / "systems" / f"{self.system}.json"

    def locate_benchmark(self, name: str) -> Path:
        """The folder of a run set or of a benchmark's scenarios; `name` is the row's
        training_name or inference_name.
        """
        return self.organisation_folder / "results" / self.system / name

    def locate_training_log(self, name: str, run: int) -> Path:
        """The log of one training run, numbered from 0."""
        return self.locate_benchmark(name) / f"result_{run}.txt"

    def locate_training_telemetry(self, name: str, run: int, node: int = 0) -> Path:
        """The telemetry of one training run; nodes of a cluster after the first append their number
        to the name.
        """
        return self.locate_benchmark(name) / (
            f"telemetry_{run}.jsonl" if node == 0 else f"telemetry_{run}_node{node}.jsonl"
        )

    def locate_accuracy_run(self, name: str, scenario: Scenario) -> Path:
        """The folder of an accuracy run."""
        return self.locate_benchmark(name) / scenario.folder / "accuracy"

    def locate_performance_run(self, name: str, scenario: Scenario, run: int = 1) -> Path:
        """The folder of a performance run, numbered from 1."""
        return self.locate_benchmark(name) / scenario.folder / "performance" / f"run_{run}"

    def locate_measurements_file(self, name: str, scenario: Scenario) -> Path:
        """The measurements file of one scenario: `<system>_podium_<Scenario>.json`."""
        return (
            self.organisation_folder
            / "measurements"
            / self.system
            / name
            / scenario.folder
            / f"{self.system}_podium_{scenario.folder}.json"
        )

    def locate_audits(self, name: str, scenario: Scenario) -> Path:
        """The folder of one scenario's compliance tests."""
        return self.organisation_folder / AUDITS_FOLDER / self.system / name / scenario.folder

    def locate_ground_truth(self, workload: str) -> Path:
        """The folder of labels, annotations or references."""
        return self.organisation_folder / "truth" / workload


def locate_checkpoint_folder(results: Path, workload: str, sha256: str) -> Path:
    """Folder of exported weights."""
    return results / CHECKPOINTS_FOLDER / workload / sha256


def locate_state_folder(results: Path, workload: str) -> Path:
    """Folder of the state of unfinished runs."""
    return results / STATE_FOLDER / workload


def locate_staged_results(results: Path, workload: str) -> Path:
    """Staging folder of a run set while an earlier one stays in place: a results folder of its
    own.
    """
    return locate_state_folder(results, workload) / STAGING_FOLDERS[0]


def locate_staged_runs(results: Path, workload: str) -> Path:
    """Staging folder of LoadGen runs while earlier ones stay in place: a results folder of its
    own.
    """
    return locate_state_folder(results, workload) / STAGING_FOLDERS[1]


def locate_staged_campaign(results: Path, workload: str) -> Path:
    """Staging folder of a whole campaign while an earlier one stays in place: a results folder of
    its own.
    """
    return locate_state_folder(results, workload) / STAGING_FOLDERS[2]


def find_owning_results(results: Path) -> Path:
    """Return the results folder that a staging folder belongs to; any other folder is returned as
    it is.
    """
    while (
        results.name in STAGING_FOLDERS
        and len(results.parts) > len(STAGING_FOLDERS)
        and results.parents[1].name == STATE_FOLDER
    ):
        results = results.parents[2]
    return results


def iterate_staging_folders(results: Path, workload: str) -> Iterator[Path]:
    """Yield a results folder and all staging folders of a workload below it."""
    campaign = locate_staged_campaign(results, workload)
    yield results
    for folder in (results, campaign):
        yield from (locate_staged_results(folder, workload), locate_staged_runs(folder, workload))
    yield campaign


def locate_ledger_file(organisation_folder: Path, workload: str) -> Path:
    """Path of a workload's ledger in an organisation's folder."""
    return organisation_folder / LEDGER_FOLDER / f"{workload}.jsonl"


def locate_absolutely(path: Path | str) -> Path:
    """Return an absolute path without `..` and without following links: Path.resolve follows them,
    and fails on a loop.
    """
    return Path(abspath(path))  # noqa: PTH100


def is_inside_folder(path: str) -> bool:
    """Return whether a relative path stays inside its folder."""
    return not Path(path).is_absolute() and ".." not in Path(path).parts


def find_existing_parent(path: Path) -> Path:
    """Return the path if it exists, else its nearest existing parent; what may not be looked at
    counts as missing.
    """
    return next(
        folder for folder in (path.absolute(), *path.absolute().parents) if access(folder, F_OK)
    )


def convert_to_slug(text: str) -> str:
    """Reduce a name to characters from [a-z0-9._-]."""
    return re.sub(r"[^a-z0-9._]+", "-", text.casefold()).strip("-._") or "unnamed"


def fold_name(name: str) -> str:
    """Normalise a name for comparison: without case, spaces and punctuation, and in one form of
    Unicode (NFKC), since file systems and editors write letters with marks differently.
    """
    return NON_ALPHANUMERIC.sub("", normalize("NFKC", normalize("NFKC", name).casefold()))


def compute_file_sha256(path: Path) -> str:
    """Hash one file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def is_exported_name(name: str) -> bool:
    """Return whether a file of this name belongs to exported weights or labels."""
    is_note = name.partition(".")[0].casefold() == "readme"
    return name != CHECKPOINT_RECORD and not is_note and not is_foreign_name(name)


def compute_folder_sha256(folder: Path) -> str:
    """Hash a folder of exported weights or labels: names and contents, sorted, without podium's own
    record, what file managers leave behind, and notes for readers.
    """
    digest = hashlib.sha256()
    for path in sorted(
        path for path in folder.iterdir() if path.is_file() and is_exported_name(path.name)
    ):
        digest.update(f"{path.name}\0{compute_file_sha256(path)}\n".encode())
    return digest.hexdigest()


def apply_default_modes(folder: Path) -> None:
    """Give the files of a folder the mode that the umask gives to new ones: some libraries write
    through a temporary file, which only its owner may read.
    """
    with TemporaryDirectory(dir=folder.parent) as scratch:
        probe = Path(scratch, "new")
        probe.touch()
        mode = S_IMODE(probe.stat().st_mode)
    for path in folder.iterdir():
        if path.is_file():
            path.chmod(mode)


def compute_names_sha256(names: Iterable[str]) -> str:
    """Hash a set of names, one per line, independent of their order."""
    return hashlib.sha256("".join(f"{name}\n" for name in sorted(names)).encode()).hexdigest()


def compute_bound_seed(nonce: str, checkpoint_sha256: str) -> int:
    """Bind a LoadGen run to a campaign and a checkpoint: 63 bits of SHA-256, for
    `accuracy_log_rng_seed`.

    63 bits, since LoadGen's detail log prints the seed through a signed type in some versions.
    """
    digest = hashlib.sha256(f"{nonce}{checkpoint_sha256}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


@contextmanager
def replace_atomically(path: Path) -> Iterator[Path]:
    """Yield a `.partial` path to write to; on success it is synced and renamed to its final name,
    on failure removed. The OSError of a full disk names it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + PARTIAL_SUFFIX)
    try:
        yield partial
        sync_to_disk(partial)
        partial.replace(path)
        sync_to_disk(path.parent)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in DISK_FULL_ERRORS and not error.filename:
            error.filename = str(partial)  # a write knows its descriptor only
        raise


def build_write_error(path: Path, error: OSError) -> MissingError | RequestError:
    """Return an error for something that could not be written: MissingError if the disk is full."""
    kind = MissingError if error.errno in DISK_FULL_ERRORS else RequestError
    return kind(f"{path}: not written: {error.strerror or error}")


def sync_to_disk(path: Path) -> None:
    """Sync a file, or a folder's entries, to disk."""
    descriptor = open_descriptor(path, O_RDONLY)
    try:
        fsync(descriptor)
    finally:
        close(descriptor)
