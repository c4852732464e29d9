"""The system that produced a result: accelerators and nodes, which are always reported, and other
fields of its description.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from compliance.bundle.manifest import read_run_environment_or_none
from compliance.documents.inference_mllog.entry_documents import read_mllog_system
from compliance.documents.inference_text.organisation import read_text_system
from compliance.documents.training.system_description import read_described_system
from compliance.recognition.path_kind import recognise_path
from submissions.result_index import IndexedResult
from suite import registry
from suite.files.untrusted_files import parse_document_count, replace_unprintable
from suite.rounds import RoundKind

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMachine:
    """The machine of a result. A field is None if the description does not state it."""

    accelerator: str | None = None
    accelerators: int | None = None
    """Total over all nodes; 0 if it ran on CPUs only."""
    nodes: int | None = None

    def __str__(self) -> str:
        if self.accelerators is None:
            return self.accelerator or "accelerators unknown"
        name = (
            f"{self.accelerators} x {self.accelerator}"
            if self.accelerator and self.accelerators
            else f"{self.accelerators} accelerators"
        )
        if self.nodes is None:
            return f"{name}, nodes unknown"
        return f"{name}, {self.nodes} node{'s' * (self.nodes != 1)}"


def read_system_description_fields(result: IndexedResult, round_name: str) -> Mapping[str, Any]:
    """Read the description of a result's system with its round's reader; empty if there is none."""
    tree_location = recognise_path(result.folder).position
    if tree_location is None or tree_location.system_file is None:
        return {}
    match registry.load_round_kind(round_name):
        case RoundKind.TRAINING:
            return (
                read_described_system(
                    tree_location.system_file,
                    tree_location,
                    registry.load_published_training(round_name),
                ).table
                or {}
            )
        case RoundKind.INFERENCE_TEXT:
            return (
                read_text_system(
                    tree_location.system_file,
                    tree_location,
                    registry.load_inference_text_round(round_name),
                ).fields
                or {}
            )
        case RoundKind.INFERENCE_MLLOG:
            return (
                read_mllog_system(
                    tree_location.system_file,
                    tree_location,
                    registry.load_inference_mllog_round(round_name),
                ).fields
                or {}
            )
        case RoundKind.ENDPOINTS | RoundKind.ENDPOINTS_CURVE:
            return {}
        case RoundKind.PODIUM:
            found = read_run_environment_or_none(tree_location.system_file)
            return found["hardware"] if found else {}


def build_compared_machine(fields: Mapping[str, Any]) -> ComparedMachine:
    """Extract accelerators and nodes from a description."""
    nodes, accelerators_per_node = (
        parse_document_count(fields.get(name))
        for name in ("number_of_nodes", "accelerators_per_node")
    )
    return ComparedMachine(
        accelerator=format_field_value(fields.get("accelerator_model_name")),
        accelerators=None
        if accelerators_per_node is None or (nodes is None and accelerators_per_node)
        else accelerators_per_node * (nodes or 1),
        nodes=nodes,
    )


def select_published_fields(fields: Mapping[str, Any]) -> dict[str, str]:
    """Select the fields that are published with a result; fields missing from the description are
    left out.
    """
    return {
        key: text
        for key in PUBLISHED_SYSTEM_FIELDS
        if (text := format_field_value(fields.get(key)))
    }


def format_field_value(value: object) -> str | None:
    """Format a text or number from a description; None if it is empty."""
    return (
        replace_unprintable(str(value)).strip() or None
        if isinstance(value, str | int | float)
        else None
    )
