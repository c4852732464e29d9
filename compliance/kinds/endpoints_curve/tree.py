"""Find the curves and points of submissions to MLPerf Endpoints.

Source: Endpoints rules, 8.1: `<organisation>/<submission>/results/<system>/<benchmark>/r<N>/`.
"""

from itertools import islice
from pathlib import Path
from typing import Final

from compliance.kinds.endpoints.recognition import (
    POINT_FILE,
    POINT_FOLDER_PATTERN,
    POINT_PATHS,
    POINT_SUMMARY,
    RESULTS_FOLDER,
)
from compliance.recognition.tree_path import is_file, is_folder, iterate_subfolders

MAX_SEARCHED_FOLDERS: Final = 64
"""Folders of a level that are searched for a point."""


def parse_point_folder(folder: Path) -> int | None:
    """Return the concurrency in the name of a point's folder; None for another name."""
    match = POINT_FOLDER_PATTERN.fullmatch(folder.name)
    if match:
        return int(match[1])
    return None


def is_endpoints_point(folder: Path) -> bool:
    """Return whether a folder is a point of a curve, of which a file may be missing."""
    return parse_point_folder(folder) is not None and any(
        is_file(folder / name) for name in (POINT_FILE, POINT_SUMMARY)
    )


def list_point_folders(curve: Path) -> list[Path]:
    """Return the folders of a curve's points, by rising concurrency."""
    found = [each for each in iterate_subfolders(curve) if parse_point_folder(each) is not None]
    return sorted(found, key=lambda each: parse_point_folder(each) or 0)


def list_misnamed_folders(curve: Path) -> list[Path]:
    """Return the folders of a curve that hold a point's files, but are not named as a point's."""
    return [
        each
        for each in iterate_subfolders(curve)
        if parse_point_folder(each) is None and any(is_file(each / name) for name in POINT_PATHS)
    ]


def is_endpoints_curve(folder: Path) -> bool:
    """Return whether a folder is a curve: it has a point, of which a file may be missing, or a
    disclosure in a folder of another name.
    """
    return any(
        is_endpoints_point(each) or is_file(each / POINT_FILE)
        for each in iterate_subfolders(folder)
    )


def list_curve_folders(folder: Path) -> list[Path]:
    """Return the curves in a submission, its results, a system or a curve."""
    results = folder / RESULTS_FOLDER
    if is_folder(results):
        return [
            each for system in iterate_subfolders(results) for each in list_system_curves(system)
        ]
    if is_endpoints_curve(folder):
        return [folder]
    return list_system_curves(folder) or [
        each for system in iterate_subfolders(folder) for each in list_system_curves(system)
    ]


def list_system_curves(system: Path) -> list[Path]:
    """Return the curves of a system, of which each folder may be misnamed."""
    return [
        each
        for each in iterate_subfolders(system)
        if is_endpoints_curve(each) or list_misnamed_folders(each)
    ]


def has_endpoints_curves(folder: Path) -> bool:
    """Return whether a folder is a submission's, its results, or a system with curves."""
    if is_folder(folder / RESULTS_FOLDER):
        return has_endpoints_curves(folder / RESULTS_FOLDER)
    if folder.name == RESULTS_FOLDER:
        systems = islice(iterate_subfolders(folder), MAX_SEARCHED_FOLDERS)
        return any(map(is_endpoints_system, systems))
    return is_endpoints_system(folder)


def is_endpoints_system(folder: Path) -> bool:
    """Return whether a folder has a curve."""
    return any(map(is_endpoints_curve, islice(iterate_subfolders(folder), MAX_SEARCHED_FOLDERS)))


def find_submission_folder(curve: Path) -> Path:
    """Return the submission's folder of a curve: above its results, if it lies in some."""
    results = curve.parent.parent
    if results.name == RESULTS_FOLDER:
        return results.parent
    return curve
