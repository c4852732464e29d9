"""Counts what the judge and the official checker of MLPerf Endpoints find of the same submissions:
honest ones, forged ones, and one for each message of the official checker (PyPI
endpoints-submission-cli, extra `bench`). The submissions are those of the tests.

Usage: python benchmarks/endpoints_checkers.py [--each] [--format text|json]
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from common.tiny import add_tiny_option, choose_size

from compliance.judge import Judge
from compliance.verdict import Severity

COMPLIANCE: Final = Path(__file__).parents[1] / "tests" / "compliance"
sys.path[:0] = [
    str(COMPLIANCE / "builders"),
    str(COMPLIANCE.parent / "shared"),
    str(COMPLIANCE),
]
from kinds.curve_edits import EDITS, HARMLESS, ROUNDED  # noqa: E402 - from these folders
from kinds.endpoints_curves import (  # noqa: E402
    CURVES,
    ORGANISATION,
    SUBMISSION,
    state_more,
    submission,
)
from kinds.official_messages import MESSAGES  # noqa: E402
from official_endpoints import IS_INSTALLED, PACKAGE, check_submission_officially  # noqa: E402
from spoiling import Builder  # noqa: E402

HONEST_CURVES: Final = ("elected", "dedicated", "agentic")
CHECKERS: Final = ("podium", "official")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinions:
    """What both checkers say of one submission, beyond what they say of the honest one."""

    podium: str
    """`error`, `warning` or `nothing`."""
    official: str
    """The same, or `crash`."""


def find_opinions(build: Builder, honest: frozenset[str]) -> tuple[Opinions, frozenset[str]]:
    """Ask both checkers about a submission. Return the opinions, and the official messages;
    `honest` are those that do not count.
    """
    with TemporaryDirectory(prefix="podium-benchmark-") as folder:
        build(Path(folder))
        said = check_submission_officially(Path(folder) / ORGANISATION / SUBMISSION)
        judged = Judge().judge_path(folder)
    new = [each for each in said if f"{each.rule}:{each.key}" not in honest]
    official = find_worst({each.severity for each in new})
    if any(each.rule == "crash" for each in new):
        official = "crash"
    severities = {str(each.severity) for each in judged.findings}
    opinions = Opinions(podium=find_worst(severities), official=official)
    return opinions, frozenset(f"{each.rule}:{each.key}" for each in said)


def find_worst(severities: set[str]) -> str:
    """Return the worst severity; `nothing` if there is none but remarks."""
    for severity in (str(Severity.ERROR), str(Severity.WARNING)):
        if severity in severities:
            return severity
    return "nothing"


def list_groups() -> Mapping[str, Mapping[str, tuple[str, Builder]]]:
    """List the submissions by what they are: name -> curve and builder."""
    honest = {name: (name, submission(curve=name)) for name in HONEST_CURVES}
    honest |= {f"{name}, all stated": (name, submission(state_more, name)) for name in honest}
    honest |= {name: ("elected", submission(edit)) for name, edit in ROUNDED.items()}
    doubtful = {name: ("elected", submission(edit)) for name, (edit, _) in HARMLESS.items()}
    doubtful |= {
        name: (name, submission(curve=name)) for name in CURVES if name in ("brief", "slow")
    }
    forged = {name: ("elected", submission(edit)) for name, (edit, _) in EDITS.items()}
    messages = {each.says: (each.curve, submission(each.edit, each.curve)) for each in MESSAGES}
    return {
        "honest": honest,
        "doubtful": doubtful,
        "forged": forged,
        "one for each official message": messages,
    }


def main() -> None:
    """Print the counts of each group."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", action="store_true", help="print each submission, too")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    add_tiny_option(parser)
    arguments = parser.parse_args()
    if not IS_INSTALLED:
        print(f"{PACKAGE} is not installed: pip install 'podium-suite[test]'", file=sys.stderr)
        sys.exit(3)
    noise = {name: find_opinions(submission(curve=name), frozenset())[1] for name in HONEST_CURVES}
    counts: dict[str, dict[str, dict[str, int]]] = {}
    for group, members in list_groups().items():
        tally = {name: Counter[str]() for name in CHECKERS}
        for name, (curve, build) in list(members.items())[: choose_size(len(members), 2)]:
            found, _ = find_opinions(build, noise.get(curve, noise["elected"]))
            tally["podium"][found.podium] += 1
            tally["official"][found.official] += 1
            if arguments.each:
                print(f"{group}: {name}: podium {found.podium}, official {found.official}")
        counts[group] = {checker: dict(each) for checker, each in tally.items()}
    if arguments.format == "json":
        print(json.dumps(counts))
        return
    for group, both in counts.items():
        for checker, each in both.items():
            words = ", ".join(f"{severity} {number}" for severity, number in sorted(each.items()))
            print(f"{group}, {checker}: {words}")


if __name__ == "__main__":
    main()
