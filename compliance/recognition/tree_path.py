"""Locates a path in a submission tree in MLCommons' layout, with or without a division level.

    <results>/<division>/<org>/results/<system>/<benchmark>/[<Scenario>/{accuracy,performance/run_n}]

Next to `results`: `systems/<system>.json`, `measurements/<system>/<benchmark>/<Scenario>/...`,
`audit/<system>/...` or `compliance/<system>/...`,
`code`, `truth`.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from suite.files.layout import LEDGER, PARTIAL
from suite.loadgen.scenario import Scenario
from suite.terms import Division

TRAINING_LOG: Final = re.compile(r"result_(?:[\w.:-]*[0-9]{4}[\w.:-]*_)?([0-9]+)\.txt")
"""A log of a set; some submitters put a timestamp before the number: result_20210517_0.txt."""
FILED_LOG: Final = re.compile(r"result_.*\.txt")
"""A log of a published set, which need not be numbered. Source: mlcommons/logging,
package_checker.py: result_*.txt.
"""
TRAINING_TELEMETRY: Final = re.compile(r"telemetry_([0-9]+)(?:_node[0-9]+)?\.jsonl")
"""Telemetry of the log with the same number, one file per node."""
INTERACTIVE: Final = "Interactive"
"""Folder of a scenario that LoadGen runs as Server, with tighter bounds of token latencies; in
MLPerf Inference since v5.1.
"""
RUN: Final = re.compile(r"run_([0-9]+)")
"""Folder of a performance run."""
TESTS: Final = ("audit", "compliance")
"""Names of the folder of an organisation's compliance tests: audit in v0.5, compliance since."""
HOME_FOLDERS: Final = ("results", "systems", "measurements", *TESTS, "code", "truth", LEDGER)
"""Folders in an organisation's folder. Source: mlcommons/policies submission_rules.adoc, Directory
structure; `truth` and `ledger` are podium's.
"""
DIVISIONS: Final = tuple(division.value for division in Division)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A position in a recognised tree."""

    home: Path
    """`<results>/<division>/<org>`."""
    system: str | None = None
    benchmark: str | None = None
    scenario: Scenario | None = None

    @property
    def org(self) -> str:
        """The organisation's folder."""
        return self.home.name

    @property
    def division(self) -> Division | None:
        """The division, if the tree has that level."""
        name = self.home.parent.name.casefold()
        return Division(name) if name in [*Division] else None

    def below(self, path: Path) -> tuple[str, ...]:
        """Return the path components below the organisation's folder."""
        return path.parts[len(self.home.parts) :]

    @property
    def system_file(self) -> Path | None:
        """Path of the system description."""
        return self.home / "systems" / f"{self.system}.json" if self.system else None


def is_folder(path: Path | str) -> bool:
    """Return whether a path is a folder; an inaccessible one is not."""
    return os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises if a parent folder is not searchable


def is_file(path: Path | str) -> bool:
    """Return whether a path is a plain file; an inaccessible one is not."""
    return os.path.isfile(path)  # noqa: PTH113 - as above


def home_of(parts: tuple[str, ...]) -> Path | None:
    """Return the folder with these path components if it is an organisation's."""
    folder = Path(*parts)
    return folder if is_home(folder) else None


def locate(
    path: Path, folder: bool, home_at: Callable[[tuple[str, ...]], Path | None]
) -> Place | None:
    """Find the organisation's folder above a path, and parse the levels below it; None outside a
    recognised tree.
    """
    parts = path.parts
    for depth in range(len(parts) - (not folder), 0, -1):
        if (depth == len(parts) or parts[depth] in HOME_FOLDERS) and (
            home := home_at(parts[:depth])
        ):
            below = parts[depth:]
            return place_in(home, below if folder or below[:1] == ("systems",) else below[:-1])
    return None


def is_home(folder: Path) -> bool:
    """Return whether a folder is an organisation's: in a division, with system descriptions next to
    its results, or among others that are.
    """
    if not is_folder(f"{folder}/results"):
        return in_division(folder) and any(
            is_folder(f"{folder}/{name}") for name in ("systems", "measurements")
        )
    if any(is_folder(f"{folder}/results/{division}") for division in DIVISIONS):
        return False
    return (
        in_division(folder)
        or is_folder(f"{folder}/systems")
        or (is_filed(folder / "results") and is_among_homes(folder))
    )


def in_division(folder: Path) -> bool:
    """Return whether a folder lies in one named like a division."""
    return len(folder.parts) > 1 and folder.parts[-2].casefold() in DIVISIONS


def is_filed(results: Path) -> bool:
    """Return whether training logs lie where they are filed: `<system>/<benchmark>/result_N.txt`,
    or flat below the system.
    """
    return any(
        any(filed_logs(folder))
        for system in folders(results)
        for folder in (*folders(system), system)
    )


def is_among_homes(folder: Path) -> bool:
    """Return whether a folder with results but without system descriptions is still an
    organisation's.

    Source: training_results_v0.6, Alibaba: results/<system>/entry.json. Without such a sign, the
    folder's name does not show who filed.
    """
    if any(is_file(system / "entry.json") for system in folders(folder / "results")):
        return True
    return any(
        is_folder(other / "systems") and is_folder(other / "results")
        for other in folders(folder.parent)
    )


def is_tree(folder: Path) -> bool:
    """Return whether a folder contains divisions."""
    return any(is_folder(folder / division) for division in DIVISIONS)


def place_in(home: Path, parts: tuple[str, ...]) -> Place:
    """Parse the levels below an organisation's folder; the last of `parts` is a folder, except
    below `systems`.
    """
    if parts[:1] == ("systems",) and len(parts) == 2:
        return Place(home=home, system=Path(parts[1]).stem)
    if not parts or parts[0] not in ("results", "measurements", *TESTS):
        return Place(home=home)
    system, benchmark, scenario = (*parts[1:4], None, None, None)[:3]
    return Place(home=home, system=system, benchmark=benchmark, scenario=scenario_of(scenario))


def scenario_of(folder: str | None) -> Scenario | None:
    """Parse a scenario's folder name, ignoring case."""
    return next(
        (
            scenario
            for scenario in Scenario
            if folder and folder.casefold() == scenario.folder.casefold()
        ),
        None,
    )


def folders(path: Path) -> Iterator[Path]:
    """Yield the subfolders of a folder, sorted; none if it cannot be read."""
    try:
        with os.scandir(path) as entries:  # tells plain files without asking for each
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


def listed(folder: Path) -> list[str]:
    """Return the names in a folder; none if it cannot be read."""
    try:
        return os.listdir(folder)  # noqa: PTH208 - a path for each of a thousand names takes longer than listing them
    except OSError:
        return []


def numbered(names: Iterable[str]) -> list[str]:
    """Return the names of training logs by number."""
    found = [(int(match[1]), name) for name in names if (match := TRAINING_LOG.fullmatch(name))]
    return [name for _, name in sorted(found)]


def training_logs(folder: Path) -> Iterator[Path]:
    """Yield the training logs of a set by number; unfinished ones are not results."""
    yield from (folder / name for name in numbered(listed(folder)))


def filed_logs(folder: Path) -> Iterator[Path]:
    """Yield the training logs of a published set: those with a number by number, then the others by
    name.
    """
    filed = list(filter(FILED_LOG.fullmatch, listed(folder)))
    first = numbered(filed)
    yield from (folder / name for name in (*first, *sorted({*filed}.difference(first))))


def training_telemetry(folder: Path) -> Iterator[Path]:
    """Yield the telemetry of a set's logs, sorted."""
    try:
        yield from sorted(
            path for path in folder.iterdir() if TRAINING_TELEMETRY.fullmatch(path.name)
        )
    except OSError:
        return


def performance_runs(entry: Path) -> Iterator[Path]:
    """Yield the folders of a scenario's performance runs by number."""
    found = [
        (int(match[1]), path)
        for path in folders(entry / "performance")
        if (match := RUN.fullmatch(path.name))
    ]
    yield from (path for _, path in sorted(found))


def unfinished(folder: Path) -> Iterator[Path]:
    """Yield the entries of a folder whose names mark them as unfinished."""
    try:
        yield from sorted(path for path in folder.iterdir() if path.name.endswith(PARTIAL))
    except OSError:
        return


def homes(tree: Path) -> Iterator[Path]:
    """Yield the organisations' folders of a tree or of one of its divisions; published training
    trees have no divisions.
    """
    divided = is_tree(tree)
    divisions = (
        [tree]
        if tree.name.casefold() in DIVISIONS or not divided
        else [tree / division for division in DIVISIONS]
    )
    yield from (
        home
        for division in divisions
        for home in folders(division)
        if is_home(home) or (not divided and is_filed(home / "results"))
    )
