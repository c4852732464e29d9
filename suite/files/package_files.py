"""Files that packages provide through an entry-point group: rounds and schemas."""

from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFile:
    """One file from a package of the group `podium.rounds` or `podium.schemas`."""

    point: EntryPoint
    path: str
    text: str

    @property
    def round(self) -> str:
        """The round that it belongs to."""
        return Path(self.path).stem


def read_package_files(point: EntryPoint, ending: str) -> list[PackageFile]:
    """Read the files of one package."""
    from importlib.resources import files

    found = [file for file in files(point.value).iterdir() if file.name.endswith(ending)]
    return [
        PackageFile(point=point, path=str(file), text=file.read_text("utf-8")) for file in found
    ]
