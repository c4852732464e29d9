"""A bundle's manifest: every file with its SHA-256 and size; no other file may be in the folder."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec

from compliance.verdict import Fault
from suite.errors import RequestError
from suite.files import untrusted_files
from suite.files.layout import MANIFEST_FILE, compute_file_sha256
from suite.files.untrusted_files import UnreadableError

HARDWARE_FIELD_PREFIXES: Final = ("host_", "accelerator", "number_of_nodes", "operating_system")
"""Prefixes of the system-description fields that name hardware and operating system."""
BUNDLE_FORMAT: Final = 3
"""The format of the bundles that this version writes and reads (docs/reference/bundle.md)."""
MAX_MANIFEST_BYTES: Final = 64 << 20
"""Maximum size of a manifest in bytes; about 400,000 files."""


class SealedFile(msgspec.Struct, frozen=True, kw_only=True):
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
    files: Mapping[str, SealedFile]
    environment: Mapping[str, Mapping[str, Any]]
    commands: tuple[Any, ...]
    seeds: tuple[int, ...]
    version: str
    ledger: Mapping[str, str] = {}
    """Path of each ledger -> SHA-256 of its last line."""


class ManifestHeader(msgspec.Struct, frozen=True):
    """What tells the format of a bundle, whatever else its manifest has."""

    format: int
    version: str = "?"


MANIFEST_HEADER_DECODER: Final = msgspec.json.Decoder(ManifestHeader)
MANIFEST_DECODER: Final = msgspec.json.Decoder(Manifest)


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the only valid text of a manifest."""
    fields = msgspec.to_builtins(manifest)
    return (json.dumps(fields, indent=2, sort_keys=True, allow_nan=False) + "\n").encode()


def check_unpacked_format(folder: Path, bundle: str) -> None:
    """RequestError for an unpacked bundle of another format than this version's; a folder without
    a manifest, or with a damaged one, passes.
    """
    with suppress(UnreadableError):
        untrusted_files.read_untrusted_file(
            folder / MANIFEST_FILE,
            lambda text: check_manifest_format(text, bundle),
            MAX_MANIFEST_BYTES,
        )


def check_manifest_format(text: bytes, bundle: str) -> None:
    """RequestError for the manifest of another format than this version's; ValueError for what is
    no manifest.
    """
    header = MANIFEST_HEADER_DECODER.decode(text)
    if header.format != BUNDLE_FORMAT:
        raise RequestError(
            f"{bundle}: a bundle of format {header.format}, written by podium {header.version};"
            f" this version reads format {BUNDLE_FORMAT} alone: take the version that wrote it"
        )


def read_run_environment(path: Path) -> Mapping[str, Any]:
    """Read a run's environment from a system description: podium's block (packages, commit, clocks,
    governor), and the hardware.

    UnreadableError if it is not a description, or holds a number that a manifest cannot reproduce.
    """
    return untrusted_files.read_untrusted_file(path, parse_run_environment)


def parse_run_environment(text: bytes) -> Mapping[str, Any]:
    """Extract podium's block and the hardware from the text of a system description."""
    document = json.loads(text)
    try:
        found = {
            **document["podium"],
            "hardware": {
                key: value
                for key, value in document.items()
                if key.startswith(HARDWARE_FIELD_PREFIXES)
            },
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("no system description with a 'podium' block") from error
    json.dumps(found, allow_nan=False)
    return found


def read_run_environment_or_none(path: Path) -> Mapping[str, Any] | None:
    """Read a run's environment; None if the description cannot be read, which the judge reports."""
    try:
        return read_run_environment(path)
    except UnreadableError:
        return None


def read_unpacked_manifest(folder: Path) -> Manifest:
    """Read the manifest of an unpacked bundle; UnreadableError if there is none."""
    return untrusted_files.read_untrusted_file(
        folder / MANIFEST_FILE, MANIFEST_DECODER.decode, MAX_MANIFEST_BYTES
    )


def read_unpacked_manifest_or_none(folder: Path) -> Manifest | None:
    """Read the manifest of an unpacked bundle; None if it cannot be read, which
    `check_bundle_manifest` reports.
    """
    try:
        return read_unpacked_manifest(folder)
    except UnreadableError:
        return None


def check_bundle_manifest(folder: Path) -> Iterator[Fault]:
    """Yield a Fault for every changed, missing or added file of an unpacked bundle."""
    try:
        manifest, canonical = untrusted_files.read_untrusted_file(
            folder / MANIFEST_FILE, parse_manifest_form, MAX_MANIFEST_BYTES
        )
    except UnreadableError as error:
        yield Fault(
            file=folder / MANIFEST_FILE,
            found=error.reason,
            required="a manifest that matches the schema manifest.json",
        )
        return
    if not canonical:
        yield Fault(
            file=folder / MANIFEST_FILE,
            found="a manifest in another form, or with other fields",
            required="the form that podium writes",
        )
    yield from check_sealed_files(folder, manifest)
    for path in sorted(
        path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()
    ):
        name = path.relative_to(folder).as_posix()
        if name not in manifest.files and name != MANIFEST_FILE:
            yield Fault(
                file=path,
                found="a file that the manifest does not name",
                required="only sealed files",
            )


def parse_manifest_form(text: bytes) -> tuple[Manifest, bool]:
    """Parse a manifest, and whether its text is the only valid one."""
    manifest = MANIFEST_DECODER.decode(text)
    return manifest, encode_manifest(manifest) == text


def check_sealed_files(folder: Path, manifest: Manifest) -> Iterator[Fault]:
    """Yield a Fault for every sealed file that is missing or changed."""
    for name, sealed in sorted(manifest.files.items()):
        try:
            fault = find_sealed_file_fault(folder, name, sealed)
        except OSError as error:  # also for an invalid file name
            fault = Fault(
                file=folder / MANIFEST_FILE,
                found=f"'{name}': {error.strerror}",
                required=f"the file with SHA-256 {sealed.sha256}",
            )
        if fault:
            yield fault


def find_sealed_file_fault(folder: Path, name: str, sealed: SealedFile) -> Fault | None:
    """Return how a sealed file differs; None if it does not. OSError if it cannot be read."""
    path = folder / name
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or path.is_symlink():
        return Fault(
            file=folder / MANIFEST_FILE,
            found=f"'{name}'",
            required="paths of plain files below the bundle's root",
        )
    if not path.is_file():
        return Fault(
            file=path, found="no such file", required=f"the file with SHA-256 {sealed.sha256}"
        )
    if path.stat().st_size != sealed.size:
        return Fault(
            file=path, found=f"{path.stat().st_size} bytes", required=f"{sealed.size} bytes"
        )
    if compute_file_sha256(path) != sealed.sha256:
        return Fault(
            file=path, found=f"SHA-256 {compute_file_sha256(path)}", required=sealed.sha256
        )
    return None
