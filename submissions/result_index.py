"""Index of a results folder or bundle: one record per training set and inference entry, found with
the judge's own code.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from compliance.bundle.archive import unpack
from compliance.recognition import path_kind, tree_path
from compliance.recognition.evidence import first_record
from submissions.score import log_values
from suite import registry
from suite.errors import JudgedError, PodiumError, unknown
from suite.events import WORKLOAD
from suite.files.layout import AUDITS, CHECKPOINT_RECORD, CHECKPOINTS, PARTIAL, file_sha256
from suite.files.untrusted_files import complaint
from suite.loadgen.scenario import Scenario

BUNDLES: Final = "bundles"
"""Folder of campaign bundles, in the results folder."""
UNPACKED: Final[dict[str, Path]] = {}
"""SHA-256 of each bundle that is open -> where it is unpacked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A unit of scoring: a training set, or the runs of one scenario."""

    folder: Path
    """Folder of its logs."""
    home: Path | None
    """The organisation's folder; None outside a tree, where the logs name the submitter."""
    system: str
    """The system's folder name; empty if no folder states it."""
    workload: str
    """The workload's name, or the folder's if no workload files results under it."""
    scenario: Scenario | None
    """None for a training set."""
    alone: Path | None = None
    """The only training log requested; None: all of the set."""

    @property
    def scenario_name(self) -> str | None:
        """The scenario as tables name it: LoadGen runs Interactive as Server, with tighter bounds;
        None for a training set.
        """
        if self.scenario is None:
            return None
        return (
            tree_path.INTERACTIVE
            if self.folder.name.casefold() == tree_path.INTERACTIVE.casefold()
            else self.scenario.label
        )

    @property
    def org(self) -> str:
        """The organisation's folder name; empty outside a tree."""
        return self.home.name if self.home else ""

    @property
    def division(self) -> str:
        """The division; empty if the tree has no such level."""
        return str((tree_path.Place(home=self.home).division if self.home else None) or "")

    @property
    def tree(self) -> Path:
        """The organisation's folder of a result that must be in a tree; JudgedError if it is
        not.
        """
        if self.home is None:
            raise JudgedError(
                f"{self.folder}: not in a results tree:"
                " <results>/<division>/<organisation>/results/<system>/..."
            )
        return self.home

    @property
    def root(self) -> Path:
        """The results folder that contains it."""
        return self.tree.parent.parent if self.division else self.tree.parent

    @property
    def system_file(self) -> Path:
        """The system description."""
        return self.tree / "systems" / f"{self.system}.json"

    @property
    def truth(self) -> Path:
        """The folder of labels, annotations or references."""
        return self.tree / "truth" / self.workload

    @property
    def measurements(self) -> Path:
        """The folder of a scenario's measurements."""
        return self.tree / "measurements" / self.folder.relative_to(self.tree / "results")

    @property
    def audits(self) -> list[Path]:
        """The folder of a scenario's compliance tests, if there is one."""
        folder = self.tree / AUDITS / self.folder.relative_to(self.tree / "results")
        return [folder] if folder.is_dir() else []

    @property
    def logs(self) -> list[Path]:
        """The training logs, in the order of their numbers."""
        return (
            [self.alone]
            if self.alone
            else list(tree_path.training_logs(self.folder))
            or list(tree_path.filed_logs(self.folder))
        )

    @property
    def telemetry(self) -> list[Path]:
        """Telemetry files of the training logs."""
        return list(tree_path.training_telemetry(self.folder))

    @property
    def accuracy(self) -> Path:
        """The folder of the accuracy run."""
        return self.folder / "accuracy"

    @property
    def performance(self) -> list[Path]:
        """The folders of the finished performance runs, in the order of their numbers."""
        return list(tree_path.performance_runs(self.folder))


def asked(path: Path) -> list[Result]:
    """Return the results that a path denotes: for a training log that run only, in a tree or
    outside one, else all below the path.
    """
    target = path_kind.recognise(path)
    if target.kind is path_kind.Kind.LOG:
        return [single(target)] if first_record(target.path) else []
    return find(path) or find_loose(target)


def single(target: path_kind.Target) -> Result:
    """Return the run of one training log."""
    folder, where = target.path.parent, target.place
    system = where.system or "" if where else ""
    return Result(
        folder=folder,
        home=where.home if where else None,
        system=system,
        workload=trained(folder),
        scenario=None,
        alone=target.path,
    )


def find_loose(target: path_kind.Target) -> list[Result]:
    """Return the results of a set, an entry, a benchmark or a system outside any tree."""
    path = target.path
    match target.kind:
        case path_kind.Kind.SET | path_kind.Kind.BENCHMARK:
            found = find_benchmark(None, "", path)
        case path_kind.Kind.ENTRY:
            found = find_benchmark(None, "", path.parent)
        case path_kind.Kind.SYSTEM:
            found = (
                result
                for bench in tree_path.folders(path)
                for result in find_benchmark(None, path.name, bench)
            )
        case _:
            return []
    return [result for result in found if result.folder.is_relative_to(path)]


def find(path: Path) -> list[Result]:
    """Return every result below a path, or containing it, sorted, training before inference; none
    outside a tree.
    """
    target = path_kind.recognise(path)
    homes = [target.place.home] if target.place else homes_in(target.path)
    found = (
        result
        for home in homes
        for system in tree_path.folders(home / "results")
        for result in find_system(home, system)
    )
    return [
        result
        for result in found
        if result.folder.is_relative_to(target.path) or target.path.is_relative_to(result.folder)
    ]


def homes_in(path: Path) -> list[Path]:
    """Return the organisations' folders of a tree, or of the trees in a folder."""
    return list(tree_path.homes(path)) or [
        home
        for folder in path_kind.results_trees(path)
        for home in list(tree_path.homes(folder)) or [folder]
    ]


def find_system(home: Path, system: Path) -> Iterator[Result]:
    """Yield the results of one system; a training set may be directly in its folder, as three
    published ones are.
    """
    if any(tree_path.filed_logs(system)):
        yield Result(
            folder=system, home=home, system=system.name, workload=system.name, scenario=None
        )
    for bench in tree_path.folders(system):
        yield from find_benchmark(home, system.name, bench)


def find_benchmark(home: Path | None, system: str, bench: Path) -> Iterator[Result]:
    """Yield the results of one benchmark: its training set, its scenarios."""
    if any(tree_path.filed_logs(bench)):
        yield Result(folder=bench, home=home, system=system, workload=trained(bench), scenario=None)
    for folder in tree_path.folders(bench):
        scenario = (
            Scenario.SERVER
            if folder.name.casefold() == tree_path.INTERACTIVE.casefold()
            else tree_path.scenario_of(folder.name)
        )
        if scenario and not folder.name.endswith(PARTIAL):
            yield Result(
                folder=folder, home=home, system=system, workload=served(bench), scenario=scenario
            )


def trained(folder: Path) -> str:
    """Return the workload of a folder's training results; the folder's name if no workload files
    results under it.
    """
    names = [
        name
        for name, row in registry.round().benchmarks.items()
        if row.training_name == folder.name
    ]
    if len(names) > 1:  # two workloads share MLPerf's name: the log says which
        logs = (
            log_values.training(log).stamps.get(WORKLOAD) for log in tree_path.training_logs(folder)
        )
        names = [name for name in logs if name in names] or names
    return names[0] if names else folder.name


def served(folder: Path) -> str:
    """Return the workload of a folder's inference results; the folder's name if no workload files
    results under it.
    """
    return next(
        (
            name
            for name, row in registry.round().benchmarks.items()
            if row.inference_name == folder.name
        ),
        folder.name,
    )


def select(
    found: list[Result], workloads: Iterable[str] = (), systems: Iterable[str] = ()
) -> list[Result]:
    """Keep the requested results, all if none are named; RequestError names what does not exist."""
    workloads, systems = tuple(workloads), tuple(systems)
    for kind, names, known in (
        ("workload", workloads, {r.workload for r in found}),
        ("system", systems, {r.system for r in found}),
    ):
        for name in names:
            if name not in known:
                raise unknown(f"{kind} in these results", name, known)
    return [
        r
        for r in found
        if (not workloads or r.workload in workloads) and (not systems or r.system in systems)
    ]


@contextmanager
def opened(path: Path) -> Iterator[list[Result]]:
    """Yield the results at a path: a results folder, a part of one, results outside any tree, or a
    bundle; JudgedError if there are none.

    A bundle is unpacked into a temporary folder that lives as long as the context.
    """
    if not path.exists():
        raise JudgedError(f"{path}: no such file or folder")
    with (
        unpacked(path)
        if path.is_file() and path_kind.recognise(path).kind is path_kind.Kind.BUNDLE
        else nullcontext(path)
    ) as root:
        found = asked(root)
        if not found:
            raise JudgedError(f"{path}: no results in it")
        yield found


@contextmanager
def unpacked(bundle: Path) -> Iterator[Path]:
    """Yield the folder of an unpacked bundle; within the context of the same bytes, the folder that
    they are unpacked in already.
    """
    try:
        sha256 = file_sha256(bundle)
    except OSError as error:
        raise JudgedError(
            f"{bundle.name}: cannot be unpacked: {error.strerror or complaint(error)}"
        ) from error
    if sha256 in UNPACKED:
        yield UNPACKED[sha256]
        return
    with TemporaryDirectory(prefix="podium-") as name:
        root = Path(name).resolve()
        unpack(bundle, root)
        UNPACKED[sha256] = root
        try:
            yield root
        finally:
            del UNPACKED[sha256]


@contextmanager
def kept(bundle: Path) -> Iterator[None]:
    """Unpack a bundle once for all that is read from it in this context; one that cannot be
    unpacked is told by whatever reads it.
    """
    with ExitStack() as unpacking:
        with suppress(PodiumError):
            unpacking.enter_context(unpacked(bundle))
        yield


def checkpoint_record(results: Path, workload: str, sha256: str) -> Path:
    """Path of a checkpoint's record."""
    return results / CHECKPOINTS / workload / sha256 / CHECKPOINT_RECORD
