"""The folder of a site: written beside its place, moved there when it is whole."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from submissions.publish.site import SITE_MARKER_FILE
from suite.errors import RequestError
from suite.files.layout import (
    PARTIAL_SUFFIX,
    compute_file_sha256,
    sync_to_disk,
)

CHECKSUMS_FILE: Final = "data/SHA256SUMS"


def check_site_target(target: Path) -> None:
    """Raise RequestError for a target that must not be overwritten, before anything is read."""
    try:
        check_site_folder(target)
    except OSError as error:
        raise RequestError(f"-o {target}: {error.strerror or error}") from error


def check_site_folder(target: Path) -> None:
    """Raise RequestError for a file, a folder that podium did not make, and a site whose list of
    podium's files is missing.
    """
    if target.exists() and not target.is_dir():
        raise RequestError(f"-o {target}: is a file; specify a folder")
    if target.is_dir() and any(target.iterdir()) and not (target / SITE_MARKER_FILE).is_file():
        raise RequestError(
            f"-o {target}: contains files that podium publish did not make; specify another "
            "folder, or an empty one"
        )
    if (
        target.is_dir()
        and (target / SITE_MARKER_FILE).is_file()
        and not (target / CHECKSUMS_FILE).is_file()
    ):
        raise RequestError(
            f"-o {target}: {CHECKSUMS_FILE}, which lists podium's own files, is missing; specify "
            "another folder"
        )
    if not target.absolute().parent.is_dir():
        raise RequestError(f"-o {target}: folder {target.parent} does not exist")


def remove_unfinished_site(folder: Path) -> None:
    """Delete the folder left by an interrupted `podium publish`; RequestError for one that it did
    not make.
    """
    if (
        folder.exists()
        and not (folder / SITE_MARKER_FILE).is_file()
        and not (folder.is_dir() and not any(folder.iterdir()))
    ):
        raise RequestError(
            f"{folder}: is in the way but was not made by podium publish; move it elsewhere"
        )
    shutil.rmtree(folder, ignore_errors=True)


def write_site_files(folder: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Write the files into a new folder, the marker first."""
    folder.mkdir()
    (folder / SITE_MARKER_FILE).touch()
    for name, content in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def link_bundle_into_site(bundle: Path, name: Path) -> None:
    """Hard-link a bundle into the site: it needs no second copy, and web servers and archivers see
    a plain file.
    """
    name.hardlink_to(bundle.resolve())


def write_site_checksums(folder: Path) -> None:
    """Write the hashes of all other files of the site."""
    files = sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )
    (folder / CHECKSUMS_FILE).write_text(
        "".join(f"{compute_file_sha256(folder / name)}  {name}\n" for name in files), "utf-8"
    )


def copy_foreign_files(old: Path, new: Path) -> None:
    """Copy files that others put into the earlier site, such as a host's CNAME. Files made by
    podium are recognised by the site's list of hashes.
    """
    if not (old / CHECKSUMS_FILE).is_file():
        return
    own_files = {
        line.partition("  ")[2]
        for line in (old / CHECKSUMS_FILE).read_text("utf-8", "replace").splitlines()
    } | {CHECKSUMS_FILE}
    for path in sorted(old.rglob("*")):
        copied = new / path.relative_to(old)
        if (
            (path.is_file() or path.is_symlink())
            and path.relative_to(old).as_posix() not in own_files
            and not copied.exists()
        ):
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copied, follow_symlinks=False)


def move_site_into_place(partial: Path, target: Path) -> None:
    """Move a complete site into place; the earlier one is deleted last, and put back if that
    fails.
    """
    old = target.with_name(f"{target.name}.old{PARTIAL_SUFFIX}")
    remove_unfinished_site(old)
    standing = target.exists()
    if standing:
        target.replace(old)
    try:
        partial.replace(target)
    except OSError:
        if standing:
            old.replace(target)
        raise
    sync_to_disk(target.parent)
    shutil.rmtree(old, ignore_errors=True)
