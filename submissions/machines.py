"""The system that produced a result: accelerators and nodes, which are always reported, and other
fields of its description.
"""

from collections.abc import Mapping
from typing import Any, Final

from compliance.recognition.path_kind import recognise_path
from compliance.results.indexed_result import IndexedResult
from compliance.results.machine import format_field_value
from suite import registry
from suite.result import Result

NOTED_SYSTEM_FIELDS: Final = {
    "processors": "host_processors_per_node",
    "cores": "host_processor_core_count",
    "framework": "framework",
    "status": "status",
}
"""Name in a note -> field of the system description."""
PUBLISHED_SYSTEM_FIELDS: Final = (
    "status",
    "host_processor_model_name",
    "host_processors_per_node",
    "host_processor_core_count",
    "framework",
    "other_software_stack",
    "operating_system",
)
"""Fields of a system description that MLCommons publishes beside a result."""


def read_system_description_fields(result: IndexedResult, round_name: str) -> Mapping[str, Any]:
    """Read the description of a result's system with its round's reader; empty if there is none."""
    tree_location = recognise_path(result.folder).position
    if tree_location is None or tree_location.system_file is None:
        return {}
    describe = registry.load_round_part(round_name, "describe_system")
    if not describe:
        return {}
    described: Mapping[str, Any] = describe(tree_location.system_file, tree_location, round_name)
    return described


def select_published_fields(fields: Mapping[str, Any]) -> dict[str, str]:
    """Select the fields that are published with a result; fields missing from the description are
    left out.
    """
    return {
        key: text
        for key in PUBLISHED_SYSTEM_FIELDS
        if (text := format_field_value(fields.get(key)))
    }


def describe_published_system(result: Result) -> dict[str, str]:
    """Return what is published of a result's system beside it."""
    return select_published_fields(result.described)
