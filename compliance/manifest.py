"""A bundle's manifest: every file with its SHA-256 and size, and nothing else in the folder."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec

from compliance.verdict import Fault
from suite.layout import MANIFEST, file_sha256

HARDWARE: Final = ("host_", "accelerator", "number_of_nodes", "operating_system")
"""Beginnings of the fields of a system description that name hardware and system."""
SIZE_LIMIT: Final = 64 << 20
"""Bytes of a manifest at most; about 400,000 files."""


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a bundle."""

    sha256: str
    size: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """`manifest.json`, the first member of a bundle (schema manifest.json)."""

    format: int
    round: str
    profile: str
    workloads: tuple[str, ...]
    nonce: Mapping[str, str]
    checkpoints: Mapping[str, str]
    files: Mapping[str, Sealed]
    environment: Mapping[str, Mapping[str, Any]]
    commands: tuple[Any, ...]
    seeds: tuple[int, ...]
    version: str


def environment(path: Path) -> Mapping[str, Any] | None:
    """Read what a run depends on from a system description: podium's block (packages, commit, clocks, governor), and the hardware."""
    try:
        document = json.loads(path.read_bytes())
        hardware = {key: value for key, value in document.items() if key.startswith(HARDWARE)}
        return {**document["podium"], "hardware": hardware}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def read(folder: Path) -> Manifest:
    """Read the manifest of an unpacked bundle; OSError or msgspec.MsgspecError where there is none."""
    path = folder / MANIFEST
    if path.stat().st_size > SIZE_LIMIT:
        raise msgspec.ValidationError(f"larger than {SIZE_LIMIT} bytes")
    return msgspec.json.decode(path.read_bytes(), type=Manifest)


def read_or_none(folder: Path) -> Manifest | None:
    """Read the manifest of an unpacked bundle; None where it cannot be read, which `verify` tells."""
    try:
        return read(folder)
    except (OSError, ValueError, RecursionError):
        return None


def verify(folder: Path) -> Iterator[Fault]:
    """Yield every file of an unpacked bundle that is changed, missing or added."""
    try:
        manifest = read(folder)
    except (OSError, ValueError, RecursionError) as error:
        yield Fault(file=folder / MANIFEST, found=str(error), required="a manifest as the schema manifest.json has it")
        return
    yield from changed(folder, manifest)
    for path in sorted(path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()):
        name = path.relative_to(folder).as_posix()
        if name not in manifest.files and name != MANIFEST:
            yield Fault(file=path, found="a file that the manifest does not name", required="only sealed files")


def changed(folder: Path, manifest: Manifest) -> Iterator[Fault]:
    """Yield every sealed file that is not there as it was sealed."""
    for name, sealed in sorted(manifest.files.items()):
        path = folder / name
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or path.is_symlink():
            yield Fault(file=folder / MANIFEST, found=f"'{name}'", required="paths of plain files below the bundle's root")
        elif not path.is_file():
            yield Fault(file=path, found="no such file", required=f"the file with SHA-256 {sealed.sha256}")
        elif path.stat().st_size != sealed.size:
            yield Fault(file=path, found=f"{path.stat().st_size} bytes", required=f"{sealed.size} bytes")
        elif file_sha256(path) != sealed.sha256:
            yield Fault(file=path, found=f"SHA-256 {file_sha256(path)}", required=sealed.sha256)
