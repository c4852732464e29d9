"""Files of packages: the rounds and schemas of entry-point groups, and the files that a workload's
package has under fixed names.
"""

from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.metadata import EntryPoint
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFile:
    """One file of a package, and the entry point that names the package or a module in it."""

    point: EntryPoint
    package: str
    path: str
    text: str

    @property
    def round(self) -> str:
        """The round that it belongs to."""
        return Path(self.path).stem


def find_point_package(point: EntryPoint) -> str:
    """Return the package that an entry point names, or that contains its module; "" if it is a
    module outside any package.
    """
    from importlib.util import find_spec

    spec = find_spec(point.module)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {point.module!r}", name=point.module)
    return spec.parent or ""


def read_package_files(point: EntryPoint, package: str, pattern: str) -> list[PackageFile]:
    """Read the files of one package whose names match a pattern."""
    from importlib.resources import files

    found = [file for file in files(package).iterdir() if fnmatch(file.name, pattern)]
    return [
        PackageFile(point=point, package=package, path=str(file), text=file.read_text("utf-8"))
        for file in found
    ]


def find_shipped_folder(installed: str, cloned: str) -> Path:
    """Find a folder that travels with podium: inside the package `suite` if it is installed,
    elsewhere in a clone.
    """
    package = Path(__file__).resolve().parents[1]
    return next(
        folder for folder in (package / installed, package.parent / cloned) if folder.is_dir()
    )
