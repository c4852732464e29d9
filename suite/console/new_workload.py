"""`podium new-workload`: a package for a new workload, copied from the example under another name;
of other data than points, some of its files are those of a template.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from suite import registry
from suite.errors import RequestError, build_unknown_name_error

WORKLOAD_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
"""A name becomes part of module, setting and folder names."""
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


def find_shipped_folder(installed: str, cloned: str) -> Path:
    """Find a folder that is installed inside this package, and lies elsewhere in a clone."""
    here = Path(__file__).resolve().parents[1]
    return next(folder for folder in (here / installed, here.parent / cloned) if folder.is_dir())


def write_workload_package(name: str, folder: Path, template: str = DEFAULT_TEMPLATE) -> list[Path]:
    """Write a workload's package into a new folder and return its files. RequestError if the name
    is invalid or taken, or there is no such template.
    """
    if template not in TEMPLATES:
        raise build_unknown_name_error("template", template, TEMPLATES)
    if not WORKLOAD_NAME.fullmatch(name):
        raise RequestError(
            f"'{name}' cannot be a workload's name: use a-z, 0-9 and _, beginning with a letter"
        )
    if name in registry.list_entry_points(registry.WORKLOAD_GROUP):
        raise RequestError(f"a workload '{name}' is installed already; choose another name")
    if folder.exists():
        raise RequestError(f"{folder}: exists already; give another folder with --output")
    texts = read_template_files(template)
    return [
        write_named_file(folder / replace_example_name(path, name), text, name)
        for path, text in sorted(texts.items())
    ]


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
