"""Index of a results folder or bundle: one record per training set and inference entry. Results are
found with the judge's code.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from compliance.bundle.archive import unpack_bundle
from compliance.recognition import path_kind, tree_path
from compliance.recognition.evidence import is_training_log
from submissions.score import log_values
from suite import registry
from suite.errors import JudgedError, PodiumError, build_unknown_name_error
from suite.events import WORKLOAD
from suite.files.layout import (
    AUDITS_FOLDER,
    CHECKPOINT_RECORD,
    CHECKPOINTS_FOLDER,
    PARTIAL_SUFFIX,
    compute_file_sha256,
)
from suite.files.untrusted_files import describe_parse_failure
from suite.loadgen.scenario import Scenario
from suite.studies.documents import STUDY_FILE

BUNDLES_FOLDER: Final = "bundles"
"""Folder of campaign bundles, in the results folder."""
UNPACKED_BUNDLES: Final[dict[str, Path]] = {}
"""SHA-256 of each open bundle -> the folder that it is unpacked in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedResult:
    """A unit of scoring: a training set, or the runs of one scenario."""

    folder: Path
    """Folder of its logs."""
    organisation_folder: Path | None
    """The organisation's folder; None outside a results tree, where the logs name the submitter."""
    system: str
    """The system's folder name; empty if no folder states it."""
    workload: str
    """The workload's name; the folder's name if no workload uses it for results."""
    scenario: Scenario | None
    """None for a training set."""
    single_log: Path | None = None
    """The only training log requested; None for the whole set."""

    @property
    def scenario_name(self) -> str | None:
        """The scenario's name in tables; None for a training set. LoadGen runs Interactive as
        Server, with tighter bounds.
        """
        if self.scenario is None:
            return None
        return (
            tree_path.INTERACTIVE_FOLDER
            if self.folder.name.casefold() == tree_path.INTERACTIVE_FOLDER.casefold()
            else self.scenario.label
        )

    @property
    def org(self) -> str:
        """The organisation's folder name; empty outside a tree."""
        return self.organisation_folder.name if self.organisation_folder else ""

    @property
    def division(self) -> str:
        """The division; empty if the tree has no such level."""
        return str(
            (
                tree_path.TreePosition(organisation_folder=self.organisation_folder).division
                if self.organisation_folder
                else None
            )
            or ""
        )

    @property
    def known_organisation_folder(self) -> Path:
        """The organisation's folder of a result that must be in a results tree; JudgedError if it
        is not.
        """
        if self.organisation_folder is None:
            raise JudgedError(
                f"{self.folder}: not in a results tree:"
                " <results>/<division>/<organisation>/results/<system>/..."
            )
        return self.organisation_folder

    @property
    def results_root(self) -> Path:
        """The results folder that contains the result."""
        return (
            self.known_organisation_folder.parent.parent
            if self.division
            else self.known_organisation_folder.parent
        )

    @property
    def system_file(self) -> Path:
        """The system description."""
        return self.known_organisation_folder / "systems" / f"{self.system}.json"

    @property
    def truth_folder(self) -> Path:
        """The folder of labels, annotations or references."""
        return self.known_organisation_folder / "truth" / self.workload

    @property
    def measurements_folder(self) -> Path:
        """The folder of a scenario's measurements."""
        return (
            self.known_organisation_folder
            / "measurements"
            / self.folder.relative_to(self.known_organisation_folder / "results")
        )

    @property
    def audit_folders(self) -> list[Path]:
        """The folders of a scenario's compliance tests that exist."""
        folder = (
            self.known_organisation_folder
            / AUDITS_FOLDER
            / self.folder.relative_to(self.known_organisation_folder / "results")
        )
        return [folder] if folder.is_dir() else []

    @property
    def training_logs(self) -> list[Path]:
        """The training logs, in the order of their numbers."""
        return (
            [self.single_log]
            if self.single_log
            else list(tree_path.list_training_logs(self.folder))
            or list(tree_path.list_published_logs(self.folder))
        )

    @property
    def telemetry_files(self) -> list[Path]:
        """Telemetry files of the training logs."""
        return list(tree_path.list_training_telemetry(self.folder))

    @property
    def accuracy_folder(self) -> Path:
        """The folder of the accuracy run."""
        return self.folder / "accuracy"

    @property
    def performance_folders(self) -> list[Path]:
        """The folders of the finished performance runs, in the order of their numbers."""
        return list(tree_path.list_performance_runs(self.folder))


def find_requested_results(path: Path) -> list[IndexedResult]:
    """Return the results at a path: for a training log, in a results tree or not, that run only;
    for another document none; else all below the path.
    """
    target = path_kind.recognise_path(path)
    if target.kind is path_kind.PathKind.LOG:
        return [build_single_log_result(target)] if is_training_log(target.path) else []
    if target.kind is path_kind.PathKind.DOCUMENT:
        return []
    return find_results(path) or find_loose_results(target)


def build_single_log_result(target: path_kind.RecognisedPath) -> IndexedResult:
    """Return the run of one training log."""
    folder, tree_location = target.path.parent, target.position
    system = tree_location.system or "" if tree_location else ""
    return IndexedResult(
        folder=folder,
        organisation_folder=tree_location.organisation_folder if tree_location else None,
        system=system,
        workload=find_training_workload(folder),
        scenario=None,
        single_log=target.path,
    )


def find_loose_results(target: path_kind.RecognisedPath) -> list[IndexedResult]:
    """Return the results of a set, an entry, a benchmark or a system outside any results tree."""
    path = target.path
    match target.kind:
        case path_kind.PathKind.SET | path_kind.PathKind.BENCHMARK:
            found = find_benchmark_results(None, "", path)
        case path_kind.PathKind.ENTRY:
            found = find_benchmark_results(None, "", path.parent)
        case path_kind.PathKind.SYSTEM:
            found = (
                result
                for benchmark_folder in tree_path.list_subfolders(path)
                for result in find_benchmark_results(None, path.name, benchmark_folder)
            )
        case _:
            return []
    return [result for result in found if result.folder.is_relative_to(path)]


def find_results(path: Path) -> list[IndexedResult]:
    """Return every result below a path, or containing it, sorted, training before inference; none
    outside a results tree, and none of a study of speed alone, whose runs lie in a tree of its own.
    """
    target = path_kind.recognise_path(path)
    organisation_folders = (
        [target.position.organisation_folder]
        if target.position
        else list_organisation_folders(target.path)
    )
    found = (
        result
        for organisation_folder in organisation_folders
        if not is_study_tree(organisation_folder)
        for system in tree_path.list_subfolders(organisation_folder / "results")
        for result in find_system_results(organisation_folder, system)
    )
    return [
        result
        for result in found
        if result.folder.is_relative_to(target.path) or target.path.is_relative_to(result.folder)
    ]


def is_study_tree(organisation_folder: Path) -> bool:
    """Return whether an organisation's folder is part of a study, `<study>/<division>/<org>`."""
    return (organisation_folder.parent.parent / STUDY_FILE).is_file()


def list_organisation_folders(path: Path) -> list[Path]:
    """Return the organisations' folders of a results tree, or of the results trees in a folder."""
    return list(tree_path.list_tree_organisations(path)) or [
        home
        for folder in path_kind.find_results_trees(path)
        for home in list(tree_path.list_tree_organisations(folder)) or [folder]
    ]


def find_system_results(organisation_folder: Path, system: Path) -> Iterator[IndexedResult]:
    """Yield the results of one system; a training set may be directly in the system's folder, as in
    three published cases.
    """
    if any(tree_path.list_published_logs(system)):
        yield IndexedResult(
            folder=system,
            organisation_folder=organisation_folder,
            system=system.name,
            workload=system.name,
            scenario=None,
        )
    for benchmark_folder in tree_path.list_subfolders(system):
        yield from find_benchmark_results(organisation_folder, system.name, benchmark_folder)


def find_benchmark_results(
    organisation_folder: Path | None, system: str, benchmark_folder: Path
) -> Iterator[IndexedResult]:
    """Yield the results of one benchmark: its training set, its scenarios."""
    if any(tree_path.list_published_logs(benchmark_folder)):
        yield IndexedResult(
            folder=benchmark_folder,
            organisation_folder=organisation_folder,
            system=system,
            workload=find_training_workload(benchmark_folder),
            scenario=None,
        )
    for folder in tree_path.list_subfolders(benchmark_folder):
        scenario = (
            Scenario.SERVER
            if folder.name.casefold() == tree_path.INTERACTIVE_FOLDER.casefold()
            else tree_path.match_scenario_folder(folder.name)
        )
        if scenario and not folder.name.endswith(PARTIAL_SUFFIX):
            yield IndexedResult(
                folder=folder,
                organisation_folder=organisation_folder,
                system=system,
                workload=find_inference_workload(benchmark_folder),
                scenario=scenario,
            )


def find_training_workload(folder: Path) -> str:
    """Return the workload of a folder's training results; the folder's name if no workload uses it
    for results.
    """
    names = [
        name
        for name, row in registry.load_round().benchmarks.items()
        if row.training_name == folder.name
    ]
    if len(names) > 1:  # two workloads share MLPerf's name: the log identifies the right one
        logs = (
            log_values.read_training_values(log).stamps.get(WORKLOAD)
            for log in tree_path.list_training_logs(folder)
        )
        names = [name for name in logs if name in names] or names
    return names[0] if names else folder.name


def find_inference_workload(folder: Path) -> str:
    """Return the workload of a folder's inference results; the folder's name if no workload uses it
    for results.
    """
    return next(
        (
            name
            for name, row in registry.load_round().benchmarks.items()
            if row.inference_name == folder.name
        ),
        folder.name,
    )


def select_named_results(
    found: list[IndexedResult], workloads: Iterable[str] = (), systems: Iterable[str] = ()
) -> list[IndexedResult]:
    """Select the requested results, all if none are named; RequestError names what does not
    exist.
    """
    workloads, systems = tuple(workloads), tuple(systems)
    for kind, names, known in (
        ("workload", workloads, {r.workload for r in found}),
        ("system", systems, {r.system for r in found}),
    ):
        for name in names:
            if name not in known:
                raise build_unknown_name_error(f"{kind} in these results", name, known)
    return [
        r
        for r in found
        if (not workloads or r.workload in workloads) and (not systems or r.system in systems)
    ]


@contextmanager
def open_results(path: Path) -> Iterator[list[IndexedResult]]:
    """Yield the results at a path: a results folder, a part of one, results outside any tree, or a
    bundle; JudgedError if there are none.

    A bundle is unpacked into a temporary folder that lives as long as the context.
    """
    if not path.exists():
        raise JudgedError(f"{path}: no such file or folder")
    with (
        unpack_bundle_once(path)
        if path.is_file() and path_kind.recognise_path(path).kind is path_kind.PathKind.BUNDLE
        else nullcontext(path)
    ) as root:
        found = find_requested_results(root)
        if not found:
            raise JudgedError(describe_missing_results(path, root))
        yield found


def describe_missing_results(path: Path, root: Path) -> str:
    """Describe a path without results, given and unpacked; studies are none, and are told so."""
    if path_kind.recognise_path(root).kind is path_kind.PathKind.STUDY or any(
        path_kind.find_studies(root)
    ):
        return f"{path}: contains no results, only studies, which podium report draws"
    return f"{path}: contains no results"


@contextmanager
def unpack_bundle_once(bundle: Path) -> Iterator[Path]:
    """Yield the folder of an unpacked bundle. If equal bytes are already unpacked in an enclosing
    context, their folder is reused.
    """
    try:
        sha256 = compute_file_sha256(bundle)
    except OSError as error:
        raise JudgedError(
            f"{bundle.name}: cannot be unpacked: {error.strerror or describe_parse_failure(error)}"
        ) from error
    if sha256 in UNPACKED_BUNDLES:
        yield UNPACKED_BUNDLES[sha256]
        return
    with TemporaryDirectory(prefix="podium-") as name:
        root = Path(name).resolve()
        unpack_bundle(bundle, root)
        UNPACKED_BUNDLES[sha256] = root
        try:
            yield root
        finally:
            del UNPACKED_BUNDLES[sha256]


@contextmanager
def keep_bundle_unpacked(bundle: Path) -> Iterator[None]:
    """Unpack a bundle once for everything that reads it within this context. If it cannot be
    unpacked, each reader reports that.
    """
    with ExitStack() as unpacking:
        with suppress(PodiumError):
            unpacking.enter_context(unpack_bundle_once(bundle))
        yield


def locate_checkpoint_record(results: Path, workload: str, sha256: str) -> Path:
    """Path of a checkpoint's record."""
    return results / CHECKPOINTS_FOLDER / workload / sha256 / CHECKPOINT_RECORD
