"""Closed vocabularies: profiles, divisions, precisions. No heavy imports, because the command
line's help needs them.
"""

from enum import StrEnum
from typing import Final


class Profile(StrEnum):
    """How much of a round is run; stamped into every log, file and bundle."""

    SMOKE = "smoke"
    QUICK = "quick"
    FULL = "full"


class Division(StrEnum):
    """MLPerf submission_rules, Divisions."""

    CLOSED = "closed"
    OPEN = "open"
    NETWORK = "network"


class Precision(StrEnum):
    """Number formats that an engine may be asked for; MLPerf training_rules, Formats."""

    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"
    INT8 = "int8"
    INT4 = "int4"


QUANTISED: Final = (Precision.INT8, Precision.INT4, Precision.FP8)
"""Number formats whose scales come from calibration samples: inference_rules.adoc v0.7,
Quantization.
"""

DEFAULT_FRAMEWORK: Final = "torch"
"""Default training framework of a workload."""
AUTOMATIC_ENGINE: Final = "auto"
"""Named in place of an engine: the fastest that is installed and answers as well as the others."""

COUNTED_FIELDS: Final = {
    "number_of_nodes": 1,
    "host_processors_per_node": 1,
    "host_processor_core_count": 1,
    "accelerators_per_node": 0,
}
"""Integer field of a system description -> its minimum on any machine. Source:
submission_rules.adoc, System description.
"""

NETWORK_FIELDS: Final = (
    "is_network",
    "network_type",
    "network_media",
    "network_rate",
    "nic_loadgen",
    "number_nic_loadgen",
    "net_software_stack_loadgen",
    "network_protocol",
    "number_connections",
    "nic_sut",
    "number_nic_sut",
    "net_software_stack_sut",
    "network_topology",
)
"""Fields of the description of a networked system. Source: mlcommons/inference,
submission_checker/constants.py,
SYSTEM_DESC_REQUIRED_FIELDS_NETWORK_MODE; `is_network` is "true"."""
