"""The data set manifest, which stores the findings of a data survey in the cache:
`<cache>/data/<workload>-<key>.json`.

The key is derived from the folder and the settings that affect the findings. The manifest stores
one stamp per folder, over the names, sizes
and times of its files, so that a changed data set is detected without opening its files; the
manifest's own hash reveals edits.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from suite.dataset import DataSet, StaleError, Survey
from suite.errors import RequestError
from suite.files.json_files import write_json
from suite.files.untrusted_files import UnreadableError, read

FOLDER: Final = "data"
KEY_LETTERS: Final = 16
LIMIT: Final = 1 << 28
"""Maximum bytes of a manifest: enough to name a million broken pictures."""
NAMED: Final = 3
"""Changes that a message names; the rest are only counted."""
GONE: Final = -1
"""Size recorded for a broken link."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A file, or the files of one folder without its subfolders."""

    files: int
    bytes: int
    stamp: str
    """SHA-256 over names, sizes and modification times."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The manifest."""

    workload: str
    root: str
    settings: dict[str, Any]
    """Settings that affect the findings."""
    samples: dict[str, int]
    hashes: dict[str, str]
    """Part of the data set -> SHA-256 (suite.dataset.Survey.sha256)."""
    places: dict[str, Place]
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


DECODER: Final = msgspec.json.Decoder(Manifest)


def path_of(cache: Path, workload: str, data_set: DataSet) -> Path:
    """Return the path of a data set's manifest."""
    asked = json.dumps([str(data_set.root.resolve()), dict(data_set.settings)], sort_keys=True)
    return (
        cache
        / FOLDER
        / f"{workload}-{hashlib.sha256(asked.encode()).hexdigest()[:KEY_LETTERS]}.json"
    )


def write(
    path: Path, workload: str, data_set: DataSet, survey: Survey, places: Mapping[str, Place]
) -> Manifest:
    """Write a manifest atomically; RequestError if the cache is not writable."""
    made = Manifest(
        workload=workload,
        root=str(data_set.root.resolve()),
        settings=dict(data_set.settings),
        samples=dict(survey.samples),
        hashes=dict(survey.sha256),
        places=dict(places),
        found=dict(survey.found),
    )
    try:
        made = DECODER.decode(
            msgspec.json.encode(made)
        )  # as it will be read back: lists for tuples
        made = msgspec.structs.replace(made, sha256=made.seal)
        write_json(path, msgspec.to_builtins(made))
    except OSError as error:
        raise RequestError(
            f"{path}: {error.strerror}; set PODIUM_CACHE to a writable folder"
        ) from error
    return made


def parsed(content: bytes) -> Manifest:
    """Parse a manifest; ValueError if it is invalid or was edited."""
    made = DECODER.decode(content)
    if made.sha256 != made.seal:
        raise ValueError("edited or damaged: its hash does not match")
    return made


def find(path: Path, workload: str) -> Manifest | None:
    """Read a manifest; None if there is none, StaleError if it is damaged, edited or another
    workload's.
    """
    try:
        made = read(path, parsed, LIMIT)
    except UnreadableError as error:
        if error.missing:
            return None
        raise StaleError(f"{path}: not a dataset manifest ({error.reason})") from error
    if made.workload != workload:
        raise StaleError(f"{path}: a manifest of {made.workload}, not of {workload}")
    return made


def places(data_set: DataSet) -> dict[str, Place]:
    """Stamp names, sizes and times of all files; opens only folders. Missing parts have no
    place.
    """
    return {
        name: place
        for part in data_set.parts
        for name, place in places_of(data_set.root, data_set.root / part)
    }


def places_of(root: Path, path: Path) -> Iterator[tuple[str, Place]]:
    """Yield a part's places: its own, and those of its subfolders."""
    if path.is_dir():
        entries = sorted(os.scandir(path), key=lambda entry: entry.name)
        yield (
            str(path.relative_to(root)),
            place_of((entry.name, stamped(entry)) for entry in entries if not entry.is_dir()),
        )
        for entry in entries:
            if entry.is_dir():
                yield from places_of(root, Path(entry.path))
    elif path.exists():
        yield str(path.relative_to(root)), place_of([(path.name, stamped(path))])


def stamped(entry: os.DirEntry[str] | Path) -> tuple[int, int]:
    """Return a file's size and modification time (ns)."""
    try:
        found = entry.stat()
    except OSError:
        return GONE, GONE
    return found.st_size, found.st_mtime_ns


def place_of(files: Iterable[tuple[str, tuple[int, int]]]) -> Place:
    """Combine files' names, sizes and times into one stamp."""
    stamp, count, total = hashlib.sha256(), 0, 0
    for name, (size, time_ns) in files:
        stamp.update(f"{name}\0{size}\0{time_ns}\n".encode(errors="surrogateescape"))
        count, total = count + 1, total + max(size, 0)
    return Place(files=count, bytes=total, stamp=stamp.hexdigest())


def changes(before: Mapping[str, Place], now: Mapping[str, Place]) -> str:
    """Describe what changed in a data set, or ""."""
    found = [
        told(name, before.get(name), now.get(name))
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return ", ".join(found[:NAMED]) + more


def told(name: str, before: Place | None, now: Place | None) -> str:
    """Describe what changed in one place."""
    if before is None or now is None:
        return f"{name} is {'new' if before is None else 'gone'}"
    if before.files != now.files:
        return f"{name} has {now.files} files and had {before.files}"
    if before.bytes != now.bytes:
        return f"{name} has {now.bytes} bytes and had {before.bytes}"
    return f"{name} was written to"
