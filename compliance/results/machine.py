"""What descriptions say of a result's system: accelerators, nodes, the precision of weights."""

from collections.abc import Mapping
from typing import Any

from suite.files.untrusted_files import parse_document_count, replace_unprintable
from suite.result import Machine


def build_machine(fields: Mapping[str, Any]) -> Machine:
    """Extract accelerators and nodes from a description."""
    nodes, accelerators_per_node = (
        parse_document_count(fields.get(name))
        for name in ("number_of_nodes", "accelerators_per_node")
    )
    accelerators = None
    if accelerators_per_node is not None and (nodes is not None or not accelerators_per_node):
        accelerators = accelerators_per_node * (nodes or 1)
    return Machine(
        accelerator=format_field_value(fields.get("accelerator_model_name")),
        accelerators=accelerators,
        nodes=nodes,
    )


def format_field_value(value: object) -> str | None:
    """Format a text or number from a description; None if it is empty."""
    if isinstance(value, str | int | float):
        return replace_unprintable(str(value)).strip() or None
    return None


def fold_stated_precision(fields: Mapping[str, object]) -> str | None:
    """Return the precision of the weights in lower case; None if it is not stated."""
    precision = fields.get("weight_data_types")
    if isinstance(precision, str):
        return precision.casefold()
    return None
