"""Mutants of inference entries: files and folders, system and measurement descriptions."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ..kinds import Kinds
from .kinds import ANSWERS, CLAIM, DETAIL, SUMMARY, Entry, field, half, in_closed, to

FILES: Kinds[Entry] = Kinds()
Where = Callable[[Entry], Path]
PLACES: Final[dict[str, Where]] = {
    "summary": lambda entry: entry.runs[0] / SUMMARY,
    "detail": lambda entry: entry.runs[0] / DETAIL,
    "accuracy_summary": lambda entry: entry.accuracy / SUMMARY,
    "accuracy_detail": lambda entry: entry.accuracy / DETAIL,
    "accuracy_answers": lambda entry: entry.accuracy / ANSWERS,
    "accuracy_claim": lambda entry: entry.accuracy / CLAIM,
    "described": lambda entry: entry.described,
    "system_file": lambda entry: entry.system_file,
}
"""Files that have to be there and to say something."""
MORE: Final[dict[str, Where]] = {
    "performance_answers": lambda entry: entry.runs[0] / ANSWERS,
    "mlperf_conf": lambda entry: entry.measurements / "mlperf.conf",
    "user_conf": lambda entry: entry.measurements / "user.conf",
    "readme": lambda entry: entry.measurements / "README.md",
    "accuracy_folder": lambda entry: entry.accuracy,
    "performance_folder": lambda entry: entry.folder / "performance",
    "first_run": lambda entry: entry.runs[0],
    "measurements_folder": lambda entry: entry.measurements,
    "code_folder": lambda entry: entry.home / "code" / entry.model,
    "systems_folder": lambda entry: entry.home / "systems",
}
"""Files and folders that have to be there."""


def deleted(where: Where) -> Callable[[Entry], bool]:
    """Take a file away."""
    return lambda entry: entry.undo.delete(where(entry))


def becomes(where: Where, change: Callable[[str], str]) -> Callable[[Entry], bool]:
    """Change a file."""
    return lambda entry: entry.undo.edit(where(entry), change)


for name, where in {**PLACES, **MORE}.items():
    FILES.put(f"missing_{name}", deleted(where), "required files")
for name, where in PLACES.items():
    FILES.put(f"empty_{name}", becomes(where, to("")), "says something")
    FILES.put(f"garbage_{name}", becomes(where, to("\x00\x01\x98\xff" * 300)), "readable")
for name in (
    "summary",
    "detail",
    "accuracy_detail",
    "accuracy_answers",
    "described",
    "system_file",
):
    FILES.put(f"half_{name}", becomes(PLACES[name], half), "whole")
for name in ("summary", "detail"):
    FILES.put(
        f"utf16_{name}",
        becomes(PLACES[name], lambda text: text.encode("utf-16").decode("latin-1")),
        "readable",
    )


def whole(
    where: Where, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> Callable[[Entry], bool]:
    """Change a JSON object in a file."""

    def edit(entry: Entry) -> bool:
        before = json.loads(where(entry).read_bytes())
        after = change(dict(before))
        return after != before and entry.undo.write(where(entry), json.dumps(after, indent=4))

    return edit


def dropping(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Leave a field out."""
    return lambda whole: {key: value for key, value in whole.items() if key != name}


def setting(name: str, value: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Give a field a value."""
    return lambda whole: {**whole, name: value}


SYSTEM: Final = (
    "division",
    "submitter",
    "status",
    "system_name",
    "number_of_nodes",
    "host_memory_capacity",
    "host_processor_core_count",
    "host_processor_model_name",
    "host_processors_per_node",
    "host_storage_capacity",
    "host_storage_type",
    "accelerator_memory_capacity",
    "accelerator_model_name",
    "accelerators_per_node",
    "framework",
    "operating_system",
    "other_software_stack",
)
MEASURED: Final = (
    "starting_weights_filename",
    "weight_transformations",
    "weight_data_types",
    "input_data_types",
    "retraining",
)
for name in SYSTEM:
    FILES.put(
        f"system_without_{name}",
        whole(PLACES["system_file"], dropping(name)),
        "required fields of a system",
    )
for name in ("division", "submitter", "status", "system_name", "framework"):
    FILES.put(
        f"system_empty_{name}",
        whole(PLACES["system_file"], setting(name, "")),
        "required fields of a system say something",
    )
for name in MEASURED:
    FILES.put(
        f"described_without_{name}",
        whole(PLACES["described"], dropping(name)),
        "required fields of a measurement",
    )
for name in ("starting_weights_filename", "weight_data_types", "input_data_types"):
    FILES.put(
        f"described_empty_{name}",
        whole(PLACES["described"], setting(name, "")),
        "required fields of a measurement say something",
    )
NO_TEXT: Final[dict[str, Any]] = {"null": None, "number": 7, "list": []}
for name, value in NO_TEXT.items():
    FILES.put(
        f"described_{name}", whole(PLACES["described"], setting("weight_data_types", value)), "text"
    )
    FILES.put(
        f"submitter_{name}", whole(PLACES["system_file"], setting("submitter", value)), "text"
    )
for name in (
    "number_of_nodes",
    "host_processors_per_node",
    "host_processor_core_count",
    "accelerators_per_node",
):
    FILES.put(
        f"system_with_fewer_than_no_{name}",
        whole(PLACES["system_file"], setting(name, -2)),
        "numbers above 0",
    )
for name in ("number_of_nodes", "host_processors_per_node", "host_processor_core_count"):
    FILES.put(
        f"system_with_no_{name}",
        whole(PLACES["system_file"], setting(name, "0")),
        "numbers above 0",
    )
FILES.put(
    "accelerators_that_are_not_counted",
    whole(
        PLACES["system_file"],
        lambda fields: {**fields, "accelerators_per_node": "0", "accelerator_model_name": "X1"},
    ),
    "as many accelerators as are named",
)
FILES.put(
    "system_with_a_blank_submitter",
    whole(PLACES["system_file"], setting("submitter", "  ")),
    "the folder's organisation",
)
FILES.put(
    "another_file_in_a_run",
    lambda entry: entry.undo.write(entry.runs[0] / "second_try.txt", "the one before\n"),
    "the run's own files",
)
FILES.put(
    "system_of_another_submitter",
    whole(PLACES["system_file"], setting("submitter", "Contoso")),
    "the folder's organisation",
)
FILES.put(
    "system_of_unknown_division",
    whole(PLACES["system_file"], setting("division", "ajar")),
    "closed or open",
)
FILES.put(
    "system_of_unknown_status",
    whole(PLACES["system_file"], setting("status", "sometime")),
    "available, preview or research",
)
FILES.put(
    "described_retrained",
    in_closed(whole(PLACES["described"], setting("retraining", "yes"))),
    "closed: no retraining",
)
FILES.put(
    "described_of_odd_numbers",
    in_closed(whole(PLACES["described"], setting("weight_data_types", "fp8"))),
    "closed: the round's number formats",
)
FILES.put("system_is_a_list", becomes(PLACES["system_file"], to("[]")), "an object")
FILES.put("described_is_a_list", becomes(PLACES["described"], to("[1]")), "an object")
FILES.put(
    "system_field_twice",
    becomes(
        PLACES["system_file"], lambda text: text.replace("{", '{\n    "submitter": "Contoso",', 1)
    ),
    "each field once",
)


@FILES.add("the folder's division")
def system_of_another_division(entry: Entry) -> bool:
    return whole(PLACES["system_file"], setting("division", "open" if entry.closed else "closed"))(
        entry
    )


@FILES.add("<system>_<implementation>_<scenario>.json")
def described_for_another_system(entry: Entry) -> bool:
    return entry.undo.rename(entry.described, entry.described.with_name("another_machine_gpu.json"))


@FILES.add("code/<model>/<implementation>/")
def implementation_renamed(entry: Entry) -> bool:
    named = [
        path
        for path in (entry.home / "code" / entry.model).iterdir()
        if f"_{path.name}" in entry.described.stem
    ]
    return bool(named) and entry.undo.rename(
        entry.described,
        entry.described.with_name(entry.described.name.replace(named[0].name, "nowhere")),
    )


@FILES.add("code/<model>/<implementation>/")
def implementation_missing(entry: Entry) -> bool:
    named = [
        path
        for path in (entry.home / "code" / entry.model).iterdir()
        if f"_{path.name}" in entry.described.stem
    ]
    return bool(named) and entry.undo.delete(named[0])


@FILES.add("answers lie in the accuracy run")
def answers_in_the_performance_run(entry: Entry) -> bool:
    answers = '[\n{ "seq_id" : 0, "qsl_idx" : 1, "data" : "00000000" }\n]\n'
    path = entry.runs[0] / ANSWERS
    return not entry.is_submission_run and path.is_file() and entry.undo.write(path, answers)


@FILES.add("all performance files")
def run_without_detail_and_summary(entry: Entry) -> bool:
    return all(entry.undo.delete(entry.runs[0] / name) for name in (SUMMARY, DETAIL))


@FILES.add("a folder is no log")
def folder_in_place_of_detail(entry: Entry) -> bool:
    path = entry.runs[0] / DETAIL
    return entry.undo.delete(path) and entry.undo.write(path / "keep", "x")


@FILES.add("the summary of this scenario")
def summary_of_another_scenario(entry: Entry) -> bool:
    wrong = "Offline" if entry.scenario != "Offline" else "Server"
    return entry.both(field("Scenario", to(wrong)))
