"""Recognises what a PATH is, and where it lies in a submission tree; MLCommons' layout, with or without a division above.

    <results>/<division>/<org>/results/<system>/<benchmark>/[<Scenario>/{accuracy,performance/run_n}]

Beside `results`: `systems/<system>.json`, `measurements/<system>/<benchmark>/<Scenario>/...`, `audit/<system>/...`, `code`, `truth`.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from io import BytesIO
from pathlib import Path
from typing import Final

from suite.layout import ACCURACY, ACCURACY_TEXT, CHECKPOINT_RECORD, CHECKPOINTS, DETAIL, MANIFEST, PARTIAL, RUN_RECORD, SUMMARY
from suite.scenario import Scenario
from suite.terms import Division

LOADGEN_FILES: Final = frozenset({SUMMARY, DETAIL, ACCURACY, ACCURACY_TEXT, RUN_RECORD, "mlperf_log_trace.json"})
TRAINING_LOG: Final = re.compile(r"result_(\d+)\.txt")
HOME_FOLDERS: Final = ("results", "systems", "measurements", "audit", "code", "truth")
"""What lies in an organisation's folder. Source: mlcommons/policies submission_rules.adoc, Directory structure; `truth` is podium's."""
MAGIC: Final = b"\x28\xb5\x2f\xfd"
"""First bytes of a bundle: those of a zstd frame, RFC 8878, section 3.1.1."""
MODES: Final = ("accuracy", "performance")
KEEPERS: Final = frozenset({".keep", ".gitkeep"})
"""Files that say that a folder is meant to be empty."""


class Kind(StrEnum):
    """What a PATH can be."""

    LOG = "training log"
    SET = "training set"
    RUN = "LoadGen run"
    RUNS = "performance runs of an entry"
    ENTRY = "inference entry"
    BENCHMARK = "benchmark of a system"
    SYSTEM_FILE = "system description"
    SYSTEM = "system"
    ORGANISATION = "organisation"
    TREE = "results tree"
    MEASUREMENTS = "measurements file"
    AUDIT = "audit folder"
    CHECKPOINT = "record of a checkpoint"
    BUNDLE = "bundle"
    EMPTY = "empty folder"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where something lies in a recognised tree."""

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
        """The division, where the tree has that level."""
        name = self.home.parent.name.casefold()
        return Division(name) if name in [*Division] else None

    @property
    def system_file(self) -> Path | None:
        """The system description."""
        return self.home / "systems" / f"{self.system}.json" if self.system else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A PATH, recognised."""

    path: Path
    """Absolute."""
    kind: Kind
    place: Place | None = None


def is_folder(path: Path) -> bool:
    """Tell a folder; what may not be looked at is none."""
    return os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises where a folder above may not be searched


def is_file(path: Path) -> bool:
    """Tell a plain file; what may not be looked at is none."""
    return os.path.isfile(path)  # noqa: PTH113 - as above


def recognise(path: Path) -> Target:
    """Say what a path is; whatever cannot be read or is nothing that the judge knows is UNKNOWN."""
    path = Path(os.path.abspath(path))  # noqa: PTH100 - Path.resolve follows links, and fails on a loop of them
    place = locate(path)
    kind = kind_of_folder(path, place) if is_folder(path) else kind_of_file(path, place)
    if kind in (Kind.RUN, Kind.CHECKPOINT) and not is_folder(path):
        path = path.parent
    if place and (filed := filed_under(path, place)):
        return Target(path=filed, kind=kind_in_results(filed, place), place=place)
    return Target(path=path, kind=kind, place=place)


def filed_under(path: Path, place: Place) -> Path | None:
    """Name the results that a folder of measurements is about; None for anything else."""
    measurements = place.home / "measurements"
    if is_folder(path) and path.is_relative_to(measurements):
        return place.home / "results" / path.relative_to(measurements)
    return None


def locate(path: Path) -> Place | None:
    """Find the organisation's folder above a path, and read the levels below it; None outside a recognised tree."""
    for home in (path, *path.parents):
        parts = path.relative_to(home).parts
        if (not parts or parts[0] in HOME_FOLDERS) and is_home(home):
            return place_in(home, parts if is_folder(path) or parts[:1] == ("systems",) else parts[:-1])
    return None


def is_home(folder: Path) -> bool:
    """Tell whether a folder is an organisation's: in a division, with system descriptions beside its results, or with logs filed in it."""
    if is_tree(folder / "results"):
        return False
    if folder.parent.name.casefold() in [*Division]:
        return any(is_folder(folder / name) for name in ("results", "systems", "measurements"))
    return is_folder(folder / "results") and (is_folder(folder / "systems") or is_filed(folder / "results"))


def is_filed(results: Path) -> bool:
    """Tell whether training logs lie where they are filed: `<system>/<benchmark>/result_N.txt`, or flat below the system."""
    return any(any(training_logs(folder)) for system in folders(results) for folder in (*folders(system), system))


def is_tree(folder: Path) -> bool:
    """Tell whether a folder has divisions in it."""
    return any(is_folder(folder / division) for division in Division)


def place_in(home: Path, parts: tuple[str, ...]) -> Place:
    """Read the levels below an organisation's folder; the last of `parts` is a folder, but below `systems`."""
    if parts[:1] == ("systems",) and len(parts) == 2:
        return Place(home=home, system=Path(parts[1]).stem)
    if parts[:1] not in (("results",), ("measurements",), ("audit",)):
        return Place(home=home)
    system, benchmark, scenario = (*parts[1:4], None, None, None)[:3]
    return Place(home=home, system=system, benchmark=benchmark, scenario=scenario_of(scenario))


def scenario_of(folder: str | None) -> Scenario | None:
    """Read a scenario's folder name, in any case."""
    return next((scenario for scenario in Scenario if folder and folder.casefold() == scenario.folder.casefold()), None)


def kind_of_file(path: Path, place: Place | None) -> Kind:
    """Say what a file is, by its place, its name and its first bytes."""
    if place and path.is_relative_to(place.home / "audit"):
        return Kind.AUDIT
    if path.name in LOADGEN_FILES:
        return Kind.RUN
    if path.name == CHECKPOINT_RECORD or CHECKPOINTS in path.parts[-4:-2]:
        return Kind.CHECKPOINT
    if place and path.parent == place.home / "systems":
        return Kind.SYSTEM_FILE
    if place and path.is_relative_to(place.home / "measurements"):
        return Kind.MEASUREMENTS
    if path.name.endswith((".tar.zst", ".tar.zst" + PARTIAL)) or starts_with_magic(path):
        return Kind.BUNDLE
    return Kind.LOG


def starts_with_magic(path: Path) -> bool:
    """Tell a zstd archive by its first bytes."""
    try:
        with path.open("rb") if is_file(path) else BytesIO() as stream:
            return stream.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def kind_of_folder(path: Path, place: Place | None) -> Kind:
    """Say what a folder is, by its place, or else by what lies in it."""
    if is_file(path / MANIFEST):
        return Kind.BUNDLE
    if place:
        return kind_in_tree(path, place)
    if is_file(path / CHECKPOINT_RECORD):
        return Kind.CHECKPOINT
    if is_tree(path) or path.name.casefold() in [*Division] or any(homes(path)):
        return Kind.TREE
    return kind_of_content(path)


def kind_of_content(path: Path) -> Kind:
    """Say what a folder outside a tree is, by what lies in it."""
    if is_run(path):
        return Kind.RUN
    if is_runs(path):
        return Kind.RUNS
    if any(training_logs(path)):
        return Kind.SET
    if is_entry(path):
        return Kind.ENTRY
    if is_benchmark(path):
        return Kind.BENCHMARK
    if any(is_benchmark(folder) or any(training_logs(folder)) for folder in folders(path)):
        return Kind.SYSTEM
    return Kind.EMPTY if is_empty(path) else Kind.UNKNOWN


def is_run(path: Path) -> bool:
    """Tell a folder with LoadGen's logs in it."""
    return any(is_file(path / name) for name in (SUMMARY, DETAIL))


def is_runs(path: Path) -> bool:
    """Tell a folder of performance runs, by its name or by what lies in it."""
    return path.name.casefold() == MODES[1] or any(folder.name.startswith("run_") and is_run(folder) for folder in folders(path))


def is_entry(path: Path) -> bool:
    """Tell a scenario's folder, by the two halves that it has."""
    return any(folder.name.casefold() in MODES for folder in folders(path))


def is_benchmark(path: Path) -> bool:
    """Tell a folder of scenarios."""
    return any(scenario_of(folder.name) and is_entry(folder) for folder in folders(path))


def is_empty(path: Path) -> bool:
    """Tell a folder with nothing in it; one that cannot be listed is not empty."""
    try:
        return all(entry.name in KEEPERS for entry in path.iterdir())
    except OSError:
        return False


def kind_in_tree(path: Path, place: Place) -> Kind:
    """Say what a folder of an organisation is, by how deep it lies."""
    parts = path.relative_to(place.home).parts
    if len(parts) > 1 and parts[0] == "audit":
        return Kind.AUDIT
    if len(parts) <= 1 or parts[0] in ("systems", "code", "truth"):
        return Kind.ORGANISATION
    return kind_in_results(path, place)


def kind_in_results(path: Path, place: Place) -> Kind:
    """Say what a folder of results or measurements is."""
    depth = len(path.relative_to(place.home).parts)
    if depth <= 3:
        return (Kind.ORGANISATION, Kind.SYSTEM, Kind.BENCHMARK)[max(depth - 1, 0)]
    if depth == 4:
        return Kind.ENTRY
    return Kind.RUNS if depth == 5 and path.name.casefold() == MODES[1] and not is_run(path) else Kind.RUN


def folders(path: Path) -> Iterator[Path]:
    """Yield the folders in a folder, sorted; none where it cannot be read."""
    try:
        yield from sorted(entry for entry in path.iterdir() if is_folder(entry) and not entry.name.startswith("."))
    except OSError:
        return


def training_logs(folder: Path) -> Iterator[Path]:
    """Yield the training logs of a set by number; unfinished ones are not results."""
    try:
        found = [(int(match[1]), path) for path in folder.iterdir() if (match := TRAINING_LOG.fullmatch(path.name))]
    except OSError:
        return
    yield from (path for _, path in sorted(found))


def unfinished(folder: Path) -> Iterator[Path]:
    """Yield what lies in a folder under a name that says it is not finished."""
    try:
        yield from sorted(path for path in folder.iterdir() if path.name.endswith(PARTIAL))
    except OSError:
        return


def homes(tree: Path) -> Iterator[Path]:
    """Yield the organisations' folders of a tree, or of one division of it; published training trees have no divisions."""
    divisions = [tree] if tree.name.casefold() in [*Division] or not is_tree(tree) else [tree / division for division in Division]
    yield from (home for division in divisions for home in folders(division) if is_home(home))
