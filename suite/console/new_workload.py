"""`podium new-workload`: a package for a new workload, copied from the example under another name;
of other data than points, some of its files are those of a template.
"""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from suite import registry
from suite.errors import RequestError, build_unknown_name_error
from suite.files.layout import build_write_error
from suite.files.package_files import find_shipped_folder
from suite.process.installation import DISTRIBUTION_NAME

WORKLOAD_NAME: Final = re.compile(r"[a-z](?:[a-z0-9_]*[a-z0-9])?")
"""A name becomes part of module, setting and folder names, and the end of a distribution's, which
pip refuses if it ends with an underscore.
"""
ALL_WORKLOADS: Final = "all"
"""What `podium run` takes for every workload."""
EXAMPLE_NAME: Final = "rings"
DEFAULT_TEMPLATE: Final = "points"
TEMPLATES: Final = {
    DEFAULT_TEMPLATE: "points, and which class each is of",
    "resnet50": "pictures, and which class each is of",
    "gnmt": "sentences, and their translations",
}
"""Template -> the samples of its generated data."""
ROW_FILE: Final = "podium-v1.toml"
SERVED_TABLES: Final = f"[{EXAMPLE_NAME}.inference."
"""Where the example's row begins to say how it is served: alike for all templates, whose own rows
end before it.
"""
SKIPPED_FOLDERS: Final = ("__pycache__", ".pytest_cache")


def find_example_package() -> Path:
    """Find the example: inside this package if podium is installed, next to it in a clone."""
    return find_shipped_folder("example", f"examples/{EXAMPLE_NAME}")


def write_workload_package(name: str, folder: Path, template: str = DEFAULT_TEMPLATE) -> list[Path]:
    """Write a workload's package into a new folder and return its files. RequestError if the name
    is invalid or taken, there is no such template, or the folder exists or cannot be written;
    MissingError if the disk is full. Nothing is left of a package that could not be written.
    """
    if template not in TEMPLATES:
        raise build_unknown_name_error("template", template, TEMPLATES)
    check_workload_name(name)
    texts = read_template_files(template)
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise RequestError(
            f"{folder}: exists already; give another folder with --output"
        ) from error
    except OSError as error:
        raise build_write_error(folder, error) from error
    try:
        return [
            write_named_file(folder / replace_example_name(path, name), text, name)
            for path, text in sorted(texts.items())
        ]
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if not isinstance(error, OSError):
            raise
        raise build_write_error(folder, error) from error


def check_workload_name(name: str) -> None:
    """Raise RequestError for a name that is invalid, taken, or means something else."""
    if not WORKLOAD_NAME.fullmatch(name):
        raise RequestError(
            f"'{name}' cannot be a workload's name: use a-z, 0-9 and _, beginning with a letter"
            " and not ending with _"
        )
    if name == ALL_WORKLOADS:
        raise RequestError(f"'{name}' stands for all workloads; choose another name")
    if f"podium-{name}" == DISTRIBUTION_NAME:
        raise RequestError(
            f"'{name}' would be installed as {DISTRIBUTION_NAME}, in place of podium itself; choose"
            " another name"
        )
    if name in registry.map_entry_points(registry.WORKLOAD_GROUP):
        raise RequestError(f"a workload '{name}' is installed already; choose another name")


def read_template_files(template: str) -> dict[str, str]:
    """Return the files of a template: those of the example, with its own in their place."""
    texts = dict(read_copied_files(find_example_package()))
    if template == DEFAULT_TEMPLATE:
        return texts
    for path, text in read_copied_files(
        find_shipped_folder("templates", "examples/templates") / template
    ).items():
        served = ""
        if Path(path).name == ROW_FILE:
            served = "\n" + texts[path][texts[path].index(SERVED_TABLES) :]
        texts[path] = text + served
    return texts


def read_copied_files(folder: Path) -> Mapping[str, str]:
    """Return the files of a package by path; not what its use left there."""
    return {
        path.relative_to(folder).as_posix(): path.read_text("utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(part in SKIPPED_FOLDERS for part in path.parts)
    }


def write_named_file(target: Path, text: str, name: str) -> Path:
    """Write one file under the new name."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(replace_example_name(text, name), "utf-8")
    return target


def replace_example_name(text: str, name: str) -> str:
    """Replace the example's name, which the example uses for nothing else."""
    return text.replace(EXAMPLE_NAME, name).replace(
        EXAMPLE_NAME.capitalize(), "".join(map(str.capitalize, name.split("_")))
    )
