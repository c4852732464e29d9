"""Locate a path in a submission tree in MLCommons' layout, with or without a division level.

  <results>/<division>/<org>/results/<system>/<benchmark>/[<Scenario>/{accuracy,performance/run_n}]

Next to `results`: `systems/<system>.json`, `measurements/<system>/<benchmark>/<Scenario>/...`,
`audit/<system>/...` or `compliance/<system>/...`, `code`, `truth`.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Final

from compliance.recognition.renamed_logs import iterate_renamed_logs
from suite.files.layout import LEDGER_FOLDER, PARTIAL_SUFFIX, fold_name
from suite.loadgen.scenario import Scenario
from suite.terms import Division

TRAINING_LOG_PATTERN: Final = re.compile(r"result_(?:[\w.:-]*[0-9]{4}[\w.:-]*_)?([0-9]+)\.txt")
"""A log of a set; some submitters put a timestamp before the number: result_20210517_0.txt."""
PUBLISHED_LOG_PATTERN: Final = re.compile(r"result_.*\.txt")
"""A log of a published set, which need not be numbered. Source: mlcommons/logging,
package_checker.py: result_*.txt.
"""
TRAINING_TELEMETRY_PATTERN: Final = re.compile(r"telemetry_([0-9]+)(?:_node[0-9]+)?\.jsonl")
"""Telemetry of the log with the same number, one file per node."""
INTERACTIVE_FOLDER: Final = "Interactive"
"""Folder of a scenario that LoadGen runs as Server, with tighter bounds of token latencies; in
MLPerf Inference since v5.1.
"""
PERFORMANCE_RUN_PATTERN: Final = re.compile(r"run_([0-9]+)")
"""Folder of a performance run."""
TEST_FOLDERS: Final = ("audit", "compliance")
"""Names of the folder of an organisation's compliance tests: audit in v0.5, compliance since."""
ORGANISATION_SUBFOLDERS: Final = (
    "results",
    "systems",
    "measurements",
    *TEST_FOLDERS,
    "code",
    "truth",
    LEDGER_FOLDER,
)
"""Folders in an organisation's folder. Source: mlcommons/policies submission_rules.adoc, Directory
structure; `truth` and `ledger` are podium's.
"""
ROUND_FOLDER_PATTERN: Final = re.compile(r"(training|inference|hpc)(?:_results)?[_-](v\d+\.\d+)")
"""Folder named like the repository of a round's results."""
SUBMITTER_PATTERN: Final = re.compile(
    rb'submission_org(?:", *"value"|: *\{"value"): *"([^"\n]{1,200})"'
)
"""Submitter in a training log."""
MAX_HEAD_BYTES: Final = 1 << 16
"""Bytes of a log that are searched for its submitter."""
DIVISION_FOLDERS: Final = tuple(division.value for division in Division)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreePosition:
    """A position in a recognised tree."""

    organisation_folder: Path
    """`<results>/<division>/<org>`."""
    system: str | None = None
    benchmark: str | None = None
    scenario: Scenario | None = None

    @property
    def org(self) -> str:
        """The organisation's folder."""
        return self.organisation_folder.name

    @property
    def division(self) -> Division | None:
        """The division, if the tree has that level."""
        name = self.organisation_folder.parent.name.casefold()
        if name in [*Division]:
            return Division(name)
        return None

    def list_parts_below(self, path: Path) -> tuple[str, ...]:
        """Return the path components below the organisation's folder."""
        return path.parts[len(self.organisation_folder.parts) :]

    @property
    def system_file(self) -> Path | None:
        """Path of the system description."""
        if self.system:
            return self.organisation_folder / "systems" / f"{self.system}.json"
        return None


def is_folder(path: Path | str) -> bool:
    """Return whether a path is a folder; an inaccessible one is not."""
    # Path.is_dir raises if a parent folder is not searchable
    return os.path.isdir(path)  # noqa: PTH112


def is_file(path: Path | str) -> bool:
    """Return whether a path is a plain file; an inaccessible one is not."""
    return os.path.isfile(path)  # noqa: PTH113 - as above


def match_organisation_folder(parts: tuple[str, ...]) -> Path | None:
    """Return the folder with these path components if it is an organisation's."""
    folder = Path(*parts)
    if is_organisation_folder(folder):
        return folder
    return None


def locate_in_tree(
    path: Path, folder: bool, match_organisation: Callable[[tuple[str, ...]], Path | None]
) -> TreePosition | None:
    """Find the organisation's folder above a path, and parse the levels below it; None outside a
    recognised tree.
    """
    parts = path.parts
    for depth in range(len(parts) - (not folder), 0, -1):
        if (depth == len(parts) or parts[depth] in ORGANISATION_SUBFOLDERS) and (
            organisation_folder := match_organisation(parts[:depth])
        ):
            below = parts[depth:]
            return parse_tree_position(
                organisation_folder, below if folder or below[:1] == ("systems",) else below[:-1]
            )
    return None


def is_organisation_folder(folder: Path) -> bool:
    """Return whether a folder is an organisation's: in a division, with system descriptions or
    measurements next to its results, or with another sign of who submitted them.
    """
    if not is_folder(f"{folder}/results"):
        return is_in_division_folder(folder) and any(
            is_folder(f"{folder}/{name}") for name in ("systems", "measurements")
        )
    if any(is_folder(f"{folder}/results/{division}") for division in DIVISION_FOLDERS):
        return False
    return (
        is_in_division_folder(folder)
        or any(is_folder(f"{folder}/{name}") for name in ("systems", "measurements"))
        or (has_filed_logs(folder / "results") and has_submitter_sign(folder))
    )


def is_in_division_folder(folder: Path) -> bool:
    """Return whether a folder is in one named like a division."""
    return len(folder.parts) > 1 and folder.parts[-2].casefold() in DIVISION_FOLDERS


def has_filed_logs(results: Path) -> bool:
    """Return whether training logs are in their places: `<system>/<benchmark>/result_N.txt`, or
    flat below the system.
    """
    return any(any(list_system_logs(system)) for system in iterate_subfolders(results))


def list_system_logs(system: Path) -> Iterator[Path]:
    """Yield the training logs of a system in their places."""
    for folder in (*iterate_subfolders(system), system):
        yield from iterate_published_logs(folder)


def has_submitter_sign(folder: Path) -> bool:
    """Return whether a folder with results but without system descriptions is still an
    organisation's: it is in a round's folder, its logs name it, or others next to it have
    descriptions. Without such a sign, the folder's name does not show the submitter.

    Source: training_results_v0.6, Alibaba: results/<system>/entry.json.
    """
    results = folder / "results"
    return (
        ROUND_FOLDER_PATTERN.search(folder.parent.name) is not None
        or any(is_file(system / "entry.json") for system in iterate_subfolders(results))
        or any(
            is_folder(other / "systems") and is_folder(other / "results")
            for other in iterate_subfolders(folder.parent)
        )
        or fold_name(folder.name) in map(fold_name, list_logged_submitters(results))
    )


def list_logged_submitters(results: Path) -> list[str]:
    """Return what the first training log of each system names as its submitter."""
    return [
        match[1].decode("utf-8", errors="replace")
        for system in iterate_subfolders(results)
        for log in islice(list_system_logs(system), 1)
        if (match := SUBMITTER_PATTERN.search(read_file_head(log)))
    ]


def read_file_head(path: Path) -> bytes:
    """Return the first bytes of a file; none if it cannot be read."""
    try:
        with path.open("rb") if is_file(path) else BytesIO() as stream:
            return stream.read(MAX_HEAD_BYTES)
    except OSError:
        return b""


def has_division_folders(folder: Path) -> bool:
    """Return whether a folder contains divisions."""
    return any(is_folder(folder / division) for division in DIVISION_FOLDERS)


def parse_tree_position(organisation_folder: Path, parts: tuple[str, ...]) -> TreePosition:
    """Parse the levels below an organisation's folder; the last of `parts` is a folder, except
    below `systems`.
    """
    if parts[:1] == ("systems",) and len(parts) == 2:
        return TreePosition(organisation_folder=organisation_folder, system=Path(parts[1]).stem)
    if not parts or parts[0] not in ("results", "measurements", *TEST_FOLDERS):
        return TreePosition(organisation_folder=organisation_folder)
    system, benchmark, scenario = (*parts[1:4], None, None, None)[:3]
    return TreePosition(
        organisation_folder=organisation_folder,
        system=system,
        benchmark=benchmark,
        scenario=match_scenario_folder(scenario),
    )


def match_scenario_folder(folder: str | None) -> Scenario | None:
    """Parse a scenario's folder name, ignoring case."""
    return next(
        (
            scenario
            for scenario in Scenario
            if folder and folder.casefold() == scenario.folder.casefold()
        ),
        None,
    )


def iterate_subfolders(path: Path) -> Iterator[Path]:
    """Yield the subfolders of a folder, sorted; none if it cannot be read."""
    try:
        with os.scandir(path) as entries:  # recognises plain files without a call for each
            found = [
                entry.name
                for entry in entries
                if not entry.name.startswith(".")
                and not entry.is_file(follow_symlinks=False)
                and is_folder(entry.path)
            ]
    except OSError:
        return
    yield from (path / name for name in sorted(found))


def list_folder_names(folder: Path) -> list[str]:
    """Return the names in a folder; none if it cannot be read."""
    try:
        # a path for each of a thousand names takes longer than listing them
        return os.listdir(folder)  # noqa: PTH208
    except OSError:
        return []


def sort_training_logs(names: Iterable[str]) -> list[str]:
    """Return the names of training logs by number."""
    found = [
        (int(match[1]), name) for name in names if (match := TRAINING_LOG_PATTERN.fullmatch(name))
    ]
    return [name for _, name in sorted(found)]


def list_training_logs(folder: Path) -> Iterator[Path]:
    """Yield the training logs of a set by number; unfinished ones are not results."""
    yield from (folder / name for name in sort_training_logs(list_folder_names(folder)))


def iterate_published_logs(folder: Path) -> Iterator[Path]:
    """Yield the training logs of a published set: those with a number by number, then the others by
    name. A folder without any, and without a set below it, may have logs under other names.
    """
    names = list_folder_names(folder)
    filed = list(filter(PUBLISHED_LOG_PATTERN.fullmatch, names))
    first = sort_training_logs(filed)
    yield from (folder / name for name in (*first, *sorted({*filed}.difference(first))))
    if not filed and not any(map(has_named_logs, iterate_subfolders(folder))):
        yield from iterate_renamed_logs(folder, names)


def has_named_logs(folder: Path) -> bool:
    """Return whether a folder has a training log under the name that rounds want."""
    return any(map(PUBLISHED_LOG_PATTERN.fullmatch, list_folder_names(folder)))


def iterate_training_telemetry(folder: Path) -> Iterator[Path]:
    """Yield the telemetry of a set's logs, sorted."""
    try:
        yield from sorted(
            path for path in folder.iterdir() if TRAINING_TELEMETRY_PATTERN.fullmatch(path.name)
        )
    except OSError:
        return


def iterate_performance_runs(entry: Path) -> Iterator[Path]:
    """Yield the folders of a scenario's performance runs by number."""
    found = [
        (int(match[1]), path)
        for path in iterate_subfolders(entry / "performance")
        if (match := PERFORMANCE_RUN_PATTERN.fullmatch(path.name))
    ]
    yield from (path for _, path in sorted(found))


def iterate_unfinished_results(folder: Path) -> Iterator[Path]:
    """Yield the entries of a folder whose names mark them as unfinished."""
    try:
        yield from sorted(path for path in folder.iterdir() if path.name.endswith(PARTIAL_SUFFIX))
    except OSError:
        return


def iterate_tree_organisations(tree: Path) -> Iterator[Path]:
    """Yield the organisations' folders of a tree or of one of its divisions; published training
    trees have no divisions.
    """
    divided = has_division_folders(tree)
    if tree.name.casefold() in DIVISION_FOLDERS or not divided:
        divisions = [tree]
    else:
        divisions = [tree / division for division in DIVISION_FOLDERS]
    yield from (
        organisation_folder
        for division in divisions
        for organisation_folder in iterate_subfolders(division)
        if is_organisation_folder(organisation_folder)
        or (not divided and has_filed_logs(organisation_folder / "results"))
    )
