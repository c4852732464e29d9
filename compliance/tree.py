"""Recognises what a PATH is, and where it lies in a submission tree; MLCommons' layout, with or without a division above.

    <results>/<division>/<org>/results/<system>/<benchmark>/[<Scenario>/{accuracy,performance/run_n}]
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from io import BytesIO
from pathlib import Path
from typing import Final

from compliance.archive import MAGIC
from suite.layout import ACCURACY, ACCURACY_TEXT, DETAIL, MANIFEST, PARTIAL, RUN_RECORD, SUMMARY
from suite.scenario import Scenario
from suite.terms import Division

LOADGEN_FILES: Final = frozenset({SUMMARY, DETAIL, ACCURACY, ACCURACY_TEXT, RUN_RECORD})
TRAINING_LOG: Final = re.compile(r"result_(\d+)\.txt")


class Kind(StrEnum):
    """What a PATH can be."""

    LOG = "training log"
    SET = "training set"
    RUN = "LoadGen run"
    ENTRY = "inference entry"
    BENCHMARK = "benchmark of a system"
    SYSTEM_FILE = "system description"
    SYSTEM = "system"
    ORGANISATION = "organisation"
    TREE = "results tree"
    BUNDLE = "bundle"
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
    if kind is Kind.RUN and is_file(path):
        path = path.parent
    return Target(path=path, kind=kind, place=place)


def locate(path: Path) -> Place | None:
    """Find the organisation's folder above a path, and read the levels below it; None outside a recognised tree."""
    for home in (path, *path.parents):
        if is_home(home) and (home == path or path.relative_to(home).parts[0] in ("results", "systems", "measurements", "truth")):
            return place_in(home, path.relative_to(home).parts)
    return None


def is_home(folder: Path) -> bool:
    """Tell whether a folder is an organisation's: in a division, or with system descriptions beside its results."""
    if not is_folder(folder / "results") or is_tree(folder / "results"):
        return False
    return folder.parent.name.casefold() in [*Division] or is_folder(folder / "systems")


def is_tree(folder: Path) -> bool:
    """Tell whether a folder has divisions in it."""
    return any(is_folder(folder / division) for division in Division)


def place_in(home: Path, parts: tuple[str, ...]) -> Place:
    """Read the levels below an organisation's folder."""
    if parts[:1] == ("systems",) and len(parts) == 2:
        return Place(home=home, system=Path(parts[1]).stem)
    if parts[:1] not in (("results",), ("measurements",)):
        return Place(home=home)
    system, benchmark, scenario = (*parts[1:4], None, None, None)[:3]
    return Place(home=home, system=system, benchmark=benchmark, scenario=scenario_of(scenario))


def scenario_of(folder: str | None) -> Scenario | None:
    """Read a scenario's folder name, in any case."""
    return next((scenario for scenario in Scenario if folder and folder.casefold() == scenario.folder.casefold()), None)


def kind_of_file(path: Path, place: Place | None) -> Kind:
    """Say what a file is, by its place, its name and its first bytes."""
    if path.name in LOADGEN_FILES:
        return Kind.RUN
    if place and path.parent == place.home / "systems":
        return Kind.SYSTEM_FILE
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
    if place and (path == place.home or path.is_relative_to(place.home / "results")):
        return kind_in_tree(path, place)
    if is_tree(path) or path.name.casefold() in [*Division]:
        return Kind.TREE
    if any(is_file(path / name) for name in (SUMMARY, DETAIL)):
        return Kind.RUN
    if is_folder(path / "accuracy") or is_folder(path / "performance"):
        return Kind.ENTRY
    return Kind.SET if any(training_logs(path)) else Kind.UNKNOWN


def kind_in_tree(path: Path, place: Place) -> Kind:
    """Say what a folder of an organisation is, by how deep it lies."""
    depth = len(path.relative_to(place.home).parts)
    if depth <= 1:
        return Kind.ORGANISATION
    if depth == 2:
        return Kind.SYSTEM
    if depth == 3:
        return Kind.BENCHMARK
    return Kind.ENTRY if depth == 4 else Kind.RUN


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
    """Yield the organisations' folders of a tree, or of one division of it."""
    divisions = [tree] if tree.name.casefold() in [*Division] else [tree / division for division in Division]
    yield from (home for division in divisions for home in folders(division) if is_home(home))
