"""The data set manifest, which stores the findings of a data survey in the cache:
`<cache>/data/<workload>-<key>.json`.

The key is derived from the folder and the settings that affect the findings. The manifest stores
one stamp per folder, over the names, sizes and times of its files, so that a changed data set is
detected without opening its files; the manifest's own hash reveals edits.
"""

import errno
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from suite.dataset import DataSet, StaleError, Survey
from suite.errors import RequestError
from suite.files.cache import build_cache_error
from suite.files.foreign_names import is_foreign_name
from suite.files.json_files import write_json
from suite.files.untrusted_files import UnreadableError, read_untrusted_file

MANIFEST_FOLDER: Final = "data"
MANIFEST_KEY_LETTERS: Final = 16
MAX_DATA_MANIFEST_BYTES: Final = 1 << 28
"""Maximum bytes of a manifest: enough to name a million broken pictures."""
MAX_NAMED_CHANGES: Final = 3
"""Changes that a message names; the rest are only counted."""
BROKEN_LINK_SIZE: Final = -1
"""Size recorded for a broken link."""


class FolderStamp(msgspec.Struct, frozen=True, kw_only=True):
    """A file, or the files of one folder without its subfolders."""

    files: int
    bytes: int
    stamp: str
    """SHA-256 over names, sizes and modification times."""


class DataManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The manifest."""

    workload: str
    root: str
    settings: dict[str, Any]
    """Settings that affect the findings."""
    samples: dict[str, int]
    hashes: dict[str, str]
    """Part of the data set -> SHA-256 (suite.dataset.Survey.sha256)."""
    places: dict[str, FolderStamp]
    """Path below the root -> its stamp."""
    found: dict[str, Any]
    sha256: str = ""
    """Hash of the manifest without this field."""

    @property
    def seal(self) -> str:
        """Compute the expected value of `sha256`."""
        return hashlib.sha256(
            msgspec.json.encode(msgspec.structs.replace(self, sha256=""), order="deterministic")
        ).hexdigest()


DATA_MANIFEST_DECODER: Final = msgspec.json.Decoder(DataManifest)


def build_manifest_path(cache: Path, workload: str, data_set: DataSet) -> Path:
    """Return the path of a data set's manifest."""
    key_source = json.dumps([str(data_set.root.resolve()), dict(data_set.settings)], sort_keys=True)
    key = hashlib.sha256(key_source.encode()).hexdigest()[:MANIFEST_KEY_LETTERS]
    return cache / MANIFEST_FOLDER / f"{workload}-{key}.json"


def write_data_manifest(
    path: Path, workload: str, data_set: DataSet, survey: Survey, places: Mapping[str, FolderStamp]
) -> DataManifest:
    """Write a manifest atomically, unless it is there; PodiumError if the cache cannot be
    written.
    """
    manifest = DataManifest(
        workload=workload,
        root=str(data_set.root.resolve()),
        settings=dict(data_set.settings),
        samples=dict(survey.samples),
        hashes=dict(survey.sha256),
        places=dict(places),
        found=dict(survey.found),
    )
    try:
        # as it will be read back: lists for tuples
        manifest = DATA_MANIFEST_DECODER.decode(msgspec.json.encode(manifest))
        manifest = msgspec.structs.replace(manifest, sha256=manifest.seal)
        if not is_manifest_kept(path, manifest):
            write_json(path, msgspec.to_builtins(manifest))
    except OSError as error:
        raise build_cache_error(path.parent, error) from error
    return manifest


def is_manifest_kept(path: Path, manifest: DataManifest) -> bool:
    """Return whether the file holds this manifest: a cache that can only be read is as good."""
    with suppress(StaleError):
        return find_data_manifest(path, manifest.workload) == manifest
    return False


def parse_data_manifest(content: bytes) -> DataManifest:
    """Parse a manifest; ValueError if it is invalid or was edited."""
    manifest = DATA_MANIFEST_DECODER.decode(content)
    if manifest.sha256 != manifest.seal:
        raise ValueError("edited or damaged: its hash does not match")
    return manifest


def find_data_manifest(path: Path, workload: str) -> DataManifest | None:
    """Read a manifest; None if there is none, StaleError if it is damaged, edited or another
    workload's, PodiumError if the cache cannot be read.
    """
    try:
        manifest = read_untrusted_file(path, parse_data_manifest, MAX_DATA_MANIFEST_BYTES)
    except UnreadableError as error:
        if error.missing:
            return None
        if isinstance(error.__cause__, OSError):
            raise build_cache_error(path.parent, error.__cause__) from error
        raise StaleError(f"{path}: not a dataset manifest ({error.reason})") from error
    if manifest.workload != workload:
        raise StaleError(f"{path}: a manifest of {manifest.workload}, not of {workload}")
    return manifest


def compute_folder_stamps(data_set: DataSet) -> dict[str, FolderStamp]:
    """Stamp names, sizes and times of all files; opens only folders. Missing parts have no
    place. RequestError if a folder cannot be read, or a link leads round in a circle.
    """
    try:
        return {
            name: place
            for part in data_set.parts
            for name, place in iterate_part_stamps(data_set.root, data_set.root / part)
        }
    except OSError as error:
        if error.errno == errno.ELOOP:
            reason = "is a link that leads back to itself; remove the link"
        else:
            reason = f"cannot be read ({error.strerror}); check its permissions and its disk"
        raise RequestError(f"{error.filename}: {reason}") from error


def iterate_part_stamps(
    root: Path, path: Path, parents: tuple[Path, ...] = ()
) -> Iterator[tuple[str, FolderStamp]]:
    """Yield a part's places: its own, and those of its subfolders; `parents` are the folders that
    were entered on the way, resolved. OSError if one cannot be read, RequestError if a link leads
    back to one.

    What systems and programs put there unasked is no part of it: a `.DS_Store` written later
    changes no data.
    """
    if path.is_dir():
        folder = path.resolve()
        if any(parent.is_relative_to(folder) for parent in parents):
            raise RequestError(
                f"{path}: is a link that leads back to a folder that it lies in; remove the link"
            )
        entries = sorted(
            (entry for entry in os.scandir(path) if not is_foreign_name(entry.name)),
            key=lambda entry: entry.name,
        )
        yield (
            str(path.relative_to(root)),
            combine_file_stamps(
                (entry.name, read_size_and_time(entry)) for entry in entries if not entry.is_dir()
            ),
        )
        for entry in entries:
            if entry.is_dir():
                yield from iterate_part_stamps(root, Path(entry.path), (*parents, folder))
    elif path.exists():
        yield (
            str(path.relative_to(root)),
            combine_file_stamps([(path.name, read_size_and_time(path))]),
        )


def read_size_and_time(entry: os.DirEntry[str] | Path) -> tuple[int, int]:
    """Return a file's size and modification time (ns); PermissionError if its folder keeps them
    from this user.
    """
    try:
        found = entry.stat()
    except PermissionError:
        raise
    except OSError:
        return BROKEN_LINK_SIZE, BROKEN_LINK_SIZE
    return found.st_size, found.st_mtime_ns


def combine_file_stamps(files: Iterable[tuple[str, tuple[int, int]]]) -> FolderStamp:
    """Combine files' names, sizes and times into one stamp."""
    stamp, count, total = hashlib.sha256(), 0, 0
    for name, (size, time_ns) in files:
        stamp.update(f"{name}\0{size}\0{time_ns}\n".encode(errors="surrogateescape"))
        count, total = count + 1, total + max(size, 0)
    return FolderStamp(files=count, bytes=total, stamp=stamp.hexdigest())


def describe_data_changes(before: Mapping[str, FolderStamp], now: Mapping[str, FolderStamp]) -> str:
    """Describe what changed in a data set, or ""."""
    descriptions = [
        describe_folder_change(name, before.get(name), now.get(name))
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]
    more = ""
    if len(descriptions) > MAX_NAMED_CHANGES:
        more = f" and {len(descriptions) - MAX_NAMED_CHANGES} more"
    return ", ".join(descriptions[:MAX_NAMED_CHANGES]) + more


def describe_folder_change(name: str, before: FolderStamp | None, now: FolderStamp | None) -> str:
    """Describe what changed in one place."""
    if before is None or now is None:
        return f"{name} is {'new' if before is None else 'gone'}"
    if before.files != now.files:
        return f"{name} has {now.files} files and had {before.files}"
    if before.bytes != now.bytes:
        return f"{name} has {now.bytes} bytes and had {before.bytes}"
    return f"{name} was written to"
