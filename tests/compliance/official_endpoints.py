"""Ask the official checker of MLPerf Endpoints (PyPI endpoints-submission-cli) about a submission.
It is compared with podium only where it is installed (extra `test`).
"""

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

PACKAGE: Final = "submission_checker"
IS_INSTALLED: Final = importlib.util.find_spec(PACKAGE) is not None
PASSED: Final = ("pass", "exempt", "override", "retained", "skipped")
"""How the keys of messages begin that say what is right."""
SHARED: Final = ("_shared", "_pydantic")
"""Messages about the form of files and fields, which have no rule of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialFinding:
    """One message of the official checker about a submission."""

    severity: str
    """`error` or `warning`."""
    rule: str
    key: str
    text: str

    def is_said(self, says: str) -> bool:
        """Return whether this is a message, as its rule and key, and a part of its text behind a
        tilde where several problems share a key.
        """
        named, _, part = says.partition("~")
        rule, _, key = named.partition(":")
        return self.rule == rule and (self.key == key or bool(part)) and part in self.text


def check_submission_officially(root: Path) -> frozenset[OfficialFinding]:
    """Return the errors and warnings about a submission; of one that it falls over an error that
    names the exception.
    """
    from submission_checker.checker import SubmissionChecker

    try:
        results = SubmissionChecker(root).run().results
    except Exception as error:  # noqa: BLE001 - whatever it falls over is its answer
        crash = OfficialFinding(
            severity="error", rule="crash", key=type(error).__name__, text=str(error)
        )
        return frozenset({crash})
    return frozenset(
        OfficialFinding(
            severity=each.severity.value, rule=each.rule, key=each.key, text=each.message
        )
        for each in results
        if each.severity.value != "info"
    )


def list_official_messages() -> list[str]:
    """List rule and key of each message about something wrong, but for those about the form."""
    from submission_checker.messages import __file__ as module

    catalogue = yaml.safe_load((Path(module).parent / "data" / "messages.yaml").read_text())
    return [
        f"{rule}:{key}"
        for rule, entry in catalogue.items()
        for key in entry["messages"]
        if rule not in SHARED and not key.startswith(PASSED)
    ]
