"""A system description: MLCommons' fields and podium's own block."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import msgspec

from compliance.documents.base import FileDocument
from compliance.logs.source_file import SourceFile, read_json_document
from compliance.recognition.tree_path import TreePosition
from suite.rounds import Round


class PodiumBlock(msgspec.Struct, frozen=True, kw_only=True):
    """The `podium` block: only the judged fields; the block's other facts are for readers."""

    packages: Mapping[str, str]
    git_commit: str | None
    git_dirty: bool | None
    cpu_governor: str | None
    cpu_clock_mhz: float | None
    power_mode: str | None = None
    """Power mode of a Jetson."""
    python: str
    round: str
    profile: str


class SystemDescription(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The system description (schema system-description.json); values that cannot be determined are
    null, never invented.
    """

    submitter: str
    division: str
    status: str
    system_name: str
    number_of_nodes: int | float | str | None
    host_processors_per_node: int | float | str | None
    host_processor_model_name: str | None
    host_processor_core_count: int | float | str | None
    host_memory_capacity: str | None
    host_storage_type: str | None
    host_storage_capacity: str | None
    accelerators_per_node: int | float | str | None
    accelerator_model_name: str | None
    accelerator_memory_configuration: str | None
    accelerator_memory_capacity: str | None
    framework: str | None
    other_software_stack: str | Mapping[str, Any] | None
    operating_system: str | None
    is_network: str | None = None
    network_type: str | None = None
    network_media: str | None = None
    network_rate: str | None = None
    nic_loadgen: str | None = None
    number_nic_loadgen: str | None = None
    net_software_stack_loadgen: str | None = None
    network_protocol: str | None = None
    number_connections: str | None = None
    nic_sut: str | None = None
    number_nic_sut: str | None = None
    net_software_stack_sut: str | None = None
    network_topology: str | None = None
    hw_notes: str | None = None
    sw_notes: str | None = None
    podium: PodiumBlock

    @property
    def networked(self) -> bool:
        """Return whether a network is described between LoadGen and the system."""
        return (self.is_network or "").strip().casefold() == "true"


SYSTEM_DECODER: Final = msgspec.json.Decoder(SystemDescription)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemFile(FileDocument):
    """A system description of podium's own."""

    document_name: ClassVar[str] = "a system description"

    description: SystemDescription
    place: TreePosition | None
    round: Round


def read_podium_system(
    source: SourceFile, place: TreePosition | None, round: Round
) -> SystemFile | None:
    """Read a system description; None with a parse error if it cannot be read."""
    description = read_json_document(source, SYSTEM_DECODER)
    if not description:
        return None
    return SystemFile(source=source, description=description, place=place, round=round)
