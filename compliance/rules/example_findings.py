"""Each rule's finding in its invalid example, for `podium explain`; written by
tests/compliance/builders/examples.py.
"""

import json
from functools import cache
from importlib.resources import files
from typing import Final

EXAMPLE_FINDINGS_FILE: Final = "example_findings.json"


@cache
def load_example_findings() -> dict[str, str]:
    """Load the findings of all examples: rule -> one line."""
    found: dict[str, str] = json.loads(
        files("compliance.rules").joinpath(EXAMPLE_FINDINGS_FILE).read_text("utf-8")
    )
    return found


def find_example_finding(rule: str) -> str | None:
    """Return the finding of a rule's example; None for a rule without one, such as a third
    party's.
    """
    return load_example_findings().get(rule)
