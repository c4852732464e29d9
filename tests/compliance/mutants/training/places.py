"""Mutants of run sets: system descriptions and folders."""

import json
import re
from collections.abc import Callable
from typing import Any

from ..kinds import Kinds
from .sets import TrainingSet

FOLDERS: Kinds[TrainingSet] = Kinds()


@FOLDERS.add("each results folder has a system description")
def system_file_missing(a_set: TrainingSet) -> bool:
    return a_set.system_file.exists() and a_set.undo.delete(a_set.system_file)


def of_system(change: Callable[[str], str]) -> Callable[[TrainingSet], bool]:
    """Change the system description."""
    return lambda a_set: a_set.system_file.exists() and a_set.undo.edit(a_set.system_file, change)


def with_field(name: str, value: Any) -> Callable[[str], str]:
    """Give a field of the system description another value; what is no JSON stays."""

    def change(text: str) -> str:
        try:
            whole = json.loads(text)
        except ValueError:
            return text
        return (
            json.dumps({**whole, name: value}) if name in whole and whole[name] != value else text
        )

    return change


FOLDERS.put(
    "system_of_another_submitter",
    of_system(with_field("submitter", "Contoso")),
    "the system is the submitter's",
)


@FOLDERS.add("the system's division is the logs'")
def system_of_another_division(a_set: TrainingSet) -> bool:
    other = "open" if a_set.log(0).closed else "closed"
    return of_system(with_field("division", other))(a_set)


FOLDERS.put("system_without_a_division", of_system(with_field("division", "")), "a division")
FOLDERS.put(
    "system_of_an_unknown_division", of_system(with_field("division", "ajar")), "closed or open"
)
FOLDERS.put("system_without_a_submitter", of_system(with_field("submitter", "")), "a submitter")
FOLDERS.put(
    "system_of_fewer_than_no_nodes",
    of_system(with_field("number_of_nodes", "-1")),
    "numbers above 0",
)
FOLDERS.put("system_of_no_nodes", of_system(with_field("number_of_nodes", "0")), "numbers above 0")
FOLDERS.put("system_of_a_blank_submitter", of_system(with_field("submitter", "  ")), "a submitter")
FOLDERS.put(
    "system_of_an_unknown_status", of_system(with_field("status", "sold out")), "a known status"
)


def lacking(name: str) -> Callable[[str], str]:
    """Leave a field of the system description out; what is no JSON stays."""

    def change(text: str) -> str:
        try:
            whole = json.loads(text)
        except ValueError:
            return text
        rest = {key: value for key, value in whole.items() if key != name}
        return json.dumps(rest) if name in whole else text

    return change


FOLDERS.made(
    ("submitter", "division", "status", "system_name", "accelerator_model_name", "framework"),
    lambda name: of_system(lacking(name)),
    "system_lacks",
    "required fields of a system",
)


def with_line(field: str, value: str) -> Callable[[str], str]:
    """Change a line of a description of v0.6 that is no JSON."""
    return lambda text: (
        text
        if text.startswith("{")
        else re.sub(rf'(?m)^({field}: .*"value": )"[^"]*"', rf'\1"{value}"', text)
    )


FOLDERS.put(
    "system_lines_of_another_submitter",
    of_system(with_line("org", "Contoso")),
    "the system is the submitter's",
)
FOLDERS.put(
    "system_lines_of_another_division",
    of_system(with_line("division", "open")),
    "the system's division is the logs'",
)
FOLDERS.put("system_file_empty", of_system(lambda text: ""), "readable")
FOLDERS.put("system_file_of_garbage", of_system(lambda text: "\x00\x01\x02" * 100), "readable")
FOLDERS.put(
    "system_file_cut",
    of_system(lambda text: text[: len(text) // 2] if text.lstrip().startswith("{") else text),
    "readable",
)
FOLDERS.put("system_file_is_a_list", of_system(lambda text: "[]"), "an object")


@FOLDERS.add("the benchmark's own name")
def benchmark_folder_misspelt(a_set: TrainingSet) -> bool:
    folder = a_set.folder.with_name(a_set.folder.name + "s")
    a_set.undo.rename(a_set.folder, folder)
    a_set.folder = folder
    return True


@FOLDERS.add("the benchmark is the folder's")
def benchmark_folder_of_another(a_set: TrainingSet) -> bool:
    folder = a_set.folder.with_name("minigo" if a_set.folder.name != "minigo" else "ssd")
    a_set.undo.rename(a_set.folder, folder)
    a_set.folder = folder
    return True


@FOLDERS.add("the organisation is the folder's")
def organisation_folder_of_another(a_set: TrainingSet) -> bool:
    home = a_set.home.with_name("Globex")
    folder = home / a_set.folder.relative_to(a_set.home)
    a_set.undo.rename(a_set.home, home)
    a_set.home, a_set.folder = home, folder
    return True


@FOLDERS.add("results/<system>/<benchmark>/")
def flat_layout(a_set: TrainingSet) -> bool:
    system = a_set.folder.parent
    for path in a_set.runs:
        a_set.undo.rename(path, system / path.name)
    a_set.undo.rename(a_set.folder, system / ".old")
    a_set.folder = system
    return True
