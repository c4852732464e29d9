"""`podium new-workload`: a package for a new workload, copied from the example under another
name.
"""

import re
from pathlib import Path
from typing import Final

from suite import registry
from suite.errors import RequestError

WORKLOAD_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
"""A name becomes part of module, setting and folder names."""
EXAMPLE_NAME: Final = "rings"
SKIPPED_FOLDERS: Final = ("__pycache__", ".pytest_cache")


def find_example_package() -> Path:
    """Find the example: inside this package if podium is installed, next to it in a clone."""
    here = Path(__file__).resolve().parents[1]
    return next(
        folder
        for folder in (here / "example", here.parent / "examples" / EXAMPLE_NAME)
        if folder.is_dir()
    )


def write_workload_package(name: str, folder: Path) -> list[Path]:
    """Write a workload's package into a new folder and return its files. RequestError if the name
    is invalid or taken.
    """
    if not WORKLOAD_NAME.fullmatch(name):
        raise RequestError(
            f"'{name}' cannot be a workload's name: use a-z, 0-9 and _, beginning with a letter"
        )
    if name in registry.list_entry_points(registry.WORKLOAD_GROUP):
        raise RequestError(f"a workload '{name}' is installed already; choose another name")
    if folder.exists():
        raise RequestError(f"{folder}: exists already; give another folder with --output")
    sources = [
        path
        for path in sorted(find_example_package().rglob("*"))
        if path.is_file() and not any(part in SKIPPED_FOLDERS for part in path.parts)
    ]
    return [
        copy_example_file(
            source,
            folder / replace_example_name(str(source.relative_to(find_example_package())), name),
            name,
        )
        for source in sources
    ]


def copy_example_file(source: Path, target: Path, name: str) -> Path:
    """Write one file under the new name."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(replace_example_name(source.read_text("utf-8"), name), "utf-8")
    return target


def replace_example_name(text: str, name: str) -> str:
    """Replace the example's name, which the example uses for nothing else."""
    return text.replace(EXAMPLE_NAME, name).replace(
        EXAMPLE_NAME.capitalize(), "".join(map(str.capitalize, name.split("_")))
    )
