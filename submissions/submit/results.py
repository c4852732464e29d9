"""What submissions of run sets and of served results have in common: their system's description,
the code, and the profile that the round asks for.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from compliance.results.indexed_result import IndexedResult
from compliance.verdict import Severity
from submissions.submit.shortfalls import Shortfall
from submissions.submit.tree import copy_given_folder, refuse_stated_facts
from suite.errors import RequestError
from suite.files.untrusted_files import UnreadableError, read_untrusted_file

SYSTEM_TABLE: Final = "system"
"""Of `--system-file`: the fields of systems/<system>.json."""
OWN_FIELDS: Final = frozenset({"podium", "status"})
"""Of podium's description: its environment, and a status in podium's words."""
FULL_PROFILE: Final = "full"
CODE_RULE: Final = "submission_rules.adoc, Directory structure"
DESCRIPTION_DECODER: Final = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultOptions:
    """What `podium submit training` and `inference` are told beside the results."""

    round: str
    org: str
    system: str | None
    system_file: Path | None
    code: Path | None

    def name_system(self, result: IndexedResult) -> str:
        """Return the name of a result's system in the tree."""
        return self.system or result.system


def require_one_result_each(results: Sequence[IndexedResult]) -> None:
    """RequestError for two results of one system, benchmark and scenario, as both divisions may
    have.
    """
    seen: dict[tuple[str, str, str | None], IndexedResult] = {}
    for each in results:
        place = (each.system, each.workload, each.scenario_name)
        other = seen.setdefault(place, each)
        if other is not each:
            raise RequestError(
                f"{each.folder}: {other.folder} is a result of the same system, too; name one of"
                " them"
            )


UNMEASURED: Final = (None, "", "N/A")
"""Values of a description that say nothing: the user may state the field."""
DATE_HINT: Final = "nothing mends it: this round took its results near the day it was published."


def build_profile_shortfall(folder: Path, profiles: Collection[str]) -> Shortfall:
    """Build what is missing of a result in another profile than the round's."""
    listed = ", ".join(sorted(profiles)) or "none"
    return Shortfall(
        rule="submit.profile",
        severity=Severity.ERROR,
        texts=(f"profile {listed}; required: {FULL_PROFILE}",),
        places=(str(folder),),
        advice="measure with --profile full and the benchmark's data set: other profiles have"
        " another network and other data.",
    )


def list_missing_code(options: ResultOptions, folders: Sequence[Path]) -> list[Shortfall]:
    """List the code that nobody named."""
    if options.code is not None:
        return []
    return [
        Shortfall(
            rule="submit.code",
            severity=Severity.ERROR,
            texts=(f"no code; required: the implementation ({CODE_RULE})",),
            places=tuple(map(str, folders)),
            advice="name the folder of the code with --code.",
        )
    ]


def copy_code(options: ResultOptions, home: Path) -> None:
    """Copy the code into the folder of a benchmark's code, once."""
    if options.code is None:
        return
    target = home / options.code.resolve().name
    if not target.exists():
        copy_given_folder("--code", options.code, target)


def describe_result_system(
    result: IndexedResult, options: ResultOptions, stated: Mapping[str, Any]
) -> dict[str, Any]:
    """Describe the system of a result: what podium found out, completed by what the user states.
    RequestError for a field that is stated otherwise than it was found. Counts are texts, as the
    official checker of Training joins them.
    """
    try:
        found = read_untrusted_file(result.system_file, DESCRIPTION_DECODER.decode)
    except UnreadableError as error:
        raise RequestError(f"{result.system_file}: {error}") from error
    fixed = {"submitter": options.org, "division": result.division}
    known = {name: value for name, value in found.items() if name not in OWN_FIELDS}
    differing = {
        name: value
        for name, value in known.items()
        if value not in UNMEASURED and name in stated and str(stated[name]) != str(value)
    }
    refuse_stated_facts(stated, {**differing, **fixed}, SYSTEM_TABLE)
    fields = {**known, "system_name": options.name_system(result), **stated, **fixed}
    return {
        name: str(value) if isinstance(value, int | float) else value
        for name, value in fields.items()
        if value is not None
    }
