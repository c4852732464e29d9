"""The system behind a result: accelerators and nodes, which are always reported, and other fields
of its description.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from compliance.bundle.manifest import environment_or_none
from compliance.documents.inference.organisation import read_system
from compliance.documents.training.system_description import read_described
from compliance.recognition.path_kind import recognise
from submissions.result_index import Result
from suite import registry
from suite.files.untrusted_files import count_in, printable
from suite.rounds import RoundKind

DESCRIBED: Final = {
    "processors": "host_processors_per_node",
    "cores": "host_processor_core_count",
    "framework": "framework",
    "status": "status",
}
"""Name in a note -> field of the system description."""
FIELDS: Final = (
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
class Machine:
    """The machine of a result; None if its description is missing or does not state it."""

    accelerator: str | None = None
    accelerators: int | None = None
    """Of all nodes together; 0: it ran on CPUs only."""
    nodes: int | None = None

    def __str__(self) -> str:
        if self.accelerators is None:
            return self.accelerator or "accelerators not told"
        name = (
            f"{self.accelerators} x {self.accelerator}"
            if self.accelerator and self.accelerators
            else f"{self.accelerators} accelerators"
        )
        if self.nodes is None:
            return f"{name}, nodes not told"
        return f"{name}, {self.nodes} node{'s' * (self.nodes != 1)}"


def described(result: Result, round_name: str) -> Mapping[str, Any]:
    """Read the description of a result's system with its round's reader; empty if there is none."""
    where = recognise(result.folder).place
    if where is None or where.system_file is None:
        return {}
    match registry.kind_of_round(round_name):
        case RoundKind.TRAINING:
            return (
                read_described(
                    where.system_file, where, registry.published_training(round_name)
                ).table
                or {}
            )
        case RoundKind.INFERENCE:
            return (
                read_system(
                    where.system_file, where, registry.published_inference(round_name)
                ).fields
                or {}
            )
        case RoundKind.SERVED:
            return {}
        case RoundKind.PODIUM:
            found = environment_or_none(where.system_file)
            return found["hardware"] if found else {}


def machine_in(fields: Mapping[str, Any]) -> Machine:
    """Take accelerators and nodes from a description."""
    nodes, held = (
        count_in(fields.get(name)) for name in ("number_of_nodes", "accelerators_per_node")
    )
    return Machine(
        accelerator=worded(fields.get("accelerator_model_name")),
        accelerators=None if held is None or (nodes is None and held) else held * (nodes or 1),
        nodes=nodes,
    )


def fields_of(fields: Mapping[str, Any]) -> dict[str, str]:
    """Take the fields that are published beside a result; those that a description does not have
    are left out.
    """
    return {key: text for key in FIELDS if (text := worded(fields.get(key)))}


def worded(value: object) -> str | None:
    """Read a word or a number from a description; None if it is empty."""
    return printable(str(value)).strip() or None if isinstance(value, str | int | float) else None
